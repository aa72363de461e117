"""Diagnostics beside the loss: groups and targets, exact policies (`population`), a small MDP (`mdp`)."""

from tpo.diagnostics.groups import (
    GroupShares,
    TargetMass,
    effective_candidates,
    entropy,
    group_shares,
    kl,
    target_mass,
    total_variation,
)
from tpo.diagnostics.mdp import MDP, chain
from tpo.diagnostics.population import (
    ClipBound,
    Share,
    clip_bound,
    gradient_share,
    odds_factor,
    population_beta,
    population_gamma,
    rare_failure,
)

__all__ = [
    "MDP",
    "ClipBound",
    "GroupShares",
    "Share",
    "TargetMass",
    "chain",
    "clip_bound",
    "effective_candidates",
    "entropy",
    "gradient_share",
    "group_shares",
    "kl",
    "odds_factor",
    "population_beta",
    "population_gamma",
    "rare_failure",
    "target_mass",
    "total_variation",
]
