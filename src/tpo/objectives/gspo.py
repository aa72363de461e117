"""Group sequence policy optimization (GSPO): one ratio per sequence, the geometric mean over its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tpo.arrays import Array, Namespace
from tpo.groups import Groups, masked
from tpo.objectives.advantages import advantage
from tpo.objectives.aggregation import token_weights
from tpo.objectives.base import Traits, inside_unit, nonnegative
from tpo.objectives.ratio import ClippedObjective, log_ratio, prepare_ratio
from tpo.objectives.weighted import PreparedPolicy, prepare_policy


@dataclass(frozen=True)
class GSPO(ClippedObjective):
    r"""Clip one length-normalised ratio per sequence.

    .. math:: s_i = (\frac{\pi(o_i)}{\pi_{old}(o_i)})^{1/|o_i|}, \qquad
              L = -\frac1B\sum_b\frac1K\sum_i
              \min(s_i u_i, \mathrm{clip}(s_i, 1-\epsilon_{low}, 1+\epsilon_{high})u_i)

    Shapes: s and u [B, K].

    Edge cases: the published clip range is three orders of magnitude narrower than PPO's, since s is a mean.

    Source: Zheng et al., arXiv 2507.18071.

    Deviates: the paper has no KL; ours is per token and averaged over the sequence, as in TRL.
    """

    traits: ClassVar[Traits] = Traits("ratio")
    kl_per_token: ClassVar[bool] = True

    clip_low: float = inside_unit(3e-4)
    clip_high: float = nonnegative(4e-4)

    def ratio_of(self) -> str:
        return "mean"

    def _prepare(self, groups: Groups) -> Any:
        return prepare_ratio(groups, "z", "mean", "sequence")

    def clip_range(self) -> tuple[float, float]:
        return self.clip_low, self.clip_high


@dataclass(frozen=True)
class GSPOToken(GSPO):
    r"""GSPO with its ratio on every token, which allows a different advantage for each token.

    .. math:: s_{it} = \mathrm{sg}(s_i)\,\frac{\pi_{it}}{\mathrm{sg}(\pi_{it})}, \qquad
              L = -\frac1B\sum_b\frac1K\sum_i\frac{1}{|o_i|}\sum_t
              \min(s_{it} A_{it}, \mathrm{clip}(s_{it}) A_{it})

    Shapes: A is u [B, K], repeated on each token.

    Edge cases: with one advantage per sequence the value and the gradient are GSPO's.

    Source: Zheng et al., arXiv 2507.18071, section 4.3.

    Deviates: nothing.
    """

    def _prepare(self, groups: Groups) -> Any:
        return prepare_policy(groups, advantage(groups, "z"), token_weights(groups, "sequence"))

    def ratio_of(self) -> str:
        return "token"

    def log_ratios(
        self, xp: Namespace, log_probs: Array, snapshot: Array, prepared: PreparedPolicy
    ) -> Array:
        detached = xp.stop_gradient(masked(xp, log_probs, prepared.tokens))
        x = log_ratio(xp, detached, snapshot, prepared, "mean")
        return x + (masked(xp, log_probs, prepared.tokens) - detached)
