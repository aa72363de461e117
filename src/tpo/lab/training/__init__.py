"""Training: from a `Cell` (task, policy, method, budget, seeds) to its curves."""

from tpo.lab.critics import Critic
from tpo.lab.rollouts import data_parallel
from tpo.lab.training.cell import Budget, Cell, Measures, Method, Staleness
from tpo.lab.training.loop import Pace, TrainingProgress, run
from tpo.lab.training.optimisers import Optimiser
from tpo.lab.training.paper_methods import BANDIT_METHODS, SEQUENCE_METHODS, method
from tpo.lab.training.population import Population
from tpo.lab.training.registry import policy_for, register

data_parallel.request_devices()

__all__ = [
    "BANDIT_METHODS",
    "SEQUENCE_METHODS",
    "Budget",
    "Cell",
    "Critic",
    "Measures",
    "Method",
    "Optimiser",
    "Pace",
    "Population",
    "Staleness",
    "TrainingProgress",
    "method",
    "policy_for",
    "register",
    "run",
]
