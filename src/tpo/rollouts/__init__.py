"""From contexts to a scored Group: one sampler, several kinds of group."""

from tpo.rollouts.distinct import Distinct, distinct, every
from tpo.rollouts.rollout import Batch, Rollout
from tpo.rollouts.sampler import Sample, Shape, sample

__all__ = ["Batch", "Distinct", "Rollout", "Sample", "Shape", "distinct", "every", "sample"]
