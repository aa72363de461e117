"""The one loop: (task, policy, objective, budget, seeds) to curves."""

from tpo.rollouts import lanes
from tpo.training.cell import Budget, Cell, Measures, Method, Staleness
from tpo.training.loop import Pace, Progress, run
from tpo.training.methods import BANDIT_METHODS, SEQUENCE_METHODS, method
from tpo.training.optimisers import Optimiser
from tpo.training.population import Population
from tpo.training.registry import policy_for, register

lanes.offer()

__all__ = [
    "BANDIT_METHODS",
    "SEQUENCE_METHODS",
    "Budget",
    "Cell",
    "Measures",
    "Method",
    "Optimiser",
    "Pace",
    "Population",
    "Progress",
    "Staleness",
    "method",
    "policy_for",
    "register",
    "run",
]
