"""From contexts to scored `Groups`: one sampler, several kinds of group."""

from tpo.lab.rollouts.distinct import Distinct, every
from tpo.lab.rollouts.rollout import Batch, Rollout
from tpo.lab.rollouts.sampler import Sample, Shape, sample

__all__ = ["Batch", "Distinct", "Rollout", "Sample", "Shape", "every", "sample"]
