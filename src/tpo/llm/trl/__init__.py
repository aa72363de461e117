"""TRL: `TargetPolicyTrainer`, a drop-in replacement for `GRPOTrainer`, and its config."""
