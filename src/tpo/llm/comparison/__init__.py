"""Several methods trained alike: same prompts, same seeds, same number of rollouts."""
