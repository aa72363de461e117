"""Rollouts: the sampler, the kinds of group made of its samples, and their distinct paths."""

from tpo.lab.rollouts.distinct import Distinct, every
from tpo.lab.rollouts.rollout import Actor, Batch, Rollout, greedy_rewards
from tpo.lab.rollouts.sampler import Sample, Shape, sample

__all__ = [
    "Actor",
    "Batch",
    "Distinct",
    "Rollout",
    "Sample",
    "Shape",
    "every",
    "greedy_rewards",
    "sample",
]
