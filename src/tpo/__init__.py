"""Target policy optimization: every objective of group-based RL, once, for NumPy, JAX and torch."""

from tpo import diagnostics, talk
from tpo.groups import Group, standardize
from tpo.objectives import (
    Objective,
    Traits,
    coefficients,
    gae,
    icepop,
    k1,
    k2,
    k3,
    length_adaptive_lambda,
    loss,
    objective,
    objectives,
    overlong_penalty,
    register,
    retrace,
    target,
    task_logits_after,
    tis,
    vtrace,
)
from tpo.version import __version__

__all__ = [
    "Group",
    "Objective",
    "Traits",
    "__version__",
    "coefficients",
    "diagnostics",
    "gae",
    "icepop",
    "k1",
    "k2",
    "k3",
    "length_adaptive_lambda",
    "loss",
    "objective",
    "objectives",
    "overlong_penalty",
    "register",
    "retrace",
    "standardize",
    "talk",
    "target",
    "task_logits_after",
    "tis",
    "vtrace",
]
