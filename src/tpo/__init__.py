"""Target policy optimization, and the other objectives of group-based RL, for NumPy, JAX and torch."""

from tpo import diagnostics
from tpo.groups import Groups, standardize
from tpo.objectives import (
    Objective,
    Traits,
    coefficients,
    list_objectives,
    loss,
    objective,
    register,
    snapshot_advantages,
    target,
)
from tpo.version import __version__

__all__ = [
    "Groups",
    "Objective",
    "Traits",
    "__version__",
    "coefficients",
    "diagnostics",
    "list_objectives",
    "loss",
    "objective",
    "register",
    "snapshot_advantages",
    "standardize",
    "target",
]
