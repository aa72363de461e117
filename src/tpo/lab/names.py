"""Names that the lab accepts, and the paper's methods as data: no JAX, so that a mistake is named at once."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # that module takes names from here
    from tpo.lab.critics import Critic

SCALES = ("smoke", "quick", "full")
"""Of a study."""
TARGETS = ("copy", "flip", "reverse_copy", "reverse_flip")
REWARDS = ("bag", "sequential", "terminal")
IMAGES = ("digits", "mnist")
EXTRA_REWARDS = ("helpful", "misleading", "random", "systematic")
"""Of codes: what is rewarded beside a right answer."""
REWARDED = ("failures", "all")
FAILED_GROUPS = ("learn", "drop", "anchor")
"""What happens to a group without a success."""
OPTIMISERS = ("muon", "muon_fading", "adam", "sgd", "normalized", "trpo")
MECHANISMS = ("tpo", "pg", "dg", "group_pg")
"""Methods whose expected update has a closed form."""
BUILDS = ("sequences", "images", "one_context", "many_contexts", "mechanism", "talk", "codes")
"""What the runs of a study are made by."""


class PaperMethod(NamedTuple):
    """An objective with its options, the kind of rollout it learns from, and its epochs per batch."""

    objective: str
    kind: str
    epochs: int = 4
    options: Mapping[str, Any] = MappingProxyType({})
    baseline: str | float | None = None
    critic: Critic | None = None
    """None for the one that is usual for the objective."""


_SEQUENCE = MappingProxyType({"granularity": "sequence"})
_GIVEN = MappingProxyType({"advantage": "given"})

SEQUENCE_METHODS = {
    "tpo": PaperMethod("tpo", "sequence"),
    "tpo_no_anchor": PaperMethod("tpo_no_anchor", "sequence"),
    "tpo_outcomes": PaperMethod("tpo_outcomes", "sequence"),
    "group_pg": PaperMethod("group_pg", "sequence"),
    "grpo": PaperMethod("grpo", "sequence", options=_SEQUENCE),
    "grpo_no_kl": PaperMethod("grpo_no_kl", "sequence", options=_SEQUENCE),
    "grpo_masked": PaperMethod("grpo_masked", "sequence", options=_SEQUENCE),
    "tpo_token": PaperMethod("tpo", "token"),
    "grpo_token": PaperMethod("grpo", "token", options=_SEQUENCE),
    "ppo": PaperMethod("ppo", "single"),
    "dg": PaperMethod("dg", "single", epochs=1),
    "reinforce": PaperMethod("reinforce", "single"),
}
"""For token sequences."""

BANDIT_METHODS = {
    "ce": PaperMethod("ce", "oracle", 1),
    "pg": PaperMethod("reinforce", "single", 1, _GIVEN, "expected"),
    "dg": PaperMethod("dg", "single", 1, _GIVEN, "expected"),
    "tpo": PaperMethod("tpo", "vector", 1, baseline="expected"),
    "grpo": PaperMethod("grpo_no_kl", "batch", 1),
    "group_pg": PaperMethod("reinforce", "signed", 1, {"advantage": "reward"}, "expected"),
    "pg_is": PaperMethod("pg_is", "single", 1, _GIVEN, "expected"),
    "ppo": PaperMethod("ppo", "single", 1, _GIVEN, "expected"),
}
"""For one action per context (MNIST, digits, sampled bandits), one step per batch."""
