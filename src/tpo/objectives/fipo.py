"""FIPO: a token counts more if what follows it has become more probable."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tpo.arrays import Array, Namespace
from tpo.objectives.base import Traits, above_one, fraction, nonnegative, positive
from tpo.objectives.grpo import DAPO
from tpo.objectives.kl import clamped
from tpo.objectives.parts import Parts, clip
from tpo.objectives.ratio import TOKEN, PreparedPolicy
from tpo.objectives.returns import accumulated

CAUTIOUS = (0.8, 1.0)
"""Bounds of the influence of a token that is pushed down and has become more probable all the same."""


@dataclass(frozen=True)
class FIPO(DAPO):
    r"""DAPO with advantages per token, weighted by how the log-probs of the tokens after it have changed.

    .. math:: F_{it} = \sum_{k \ge t} 2^{-(k-t)/h}\, M_{ik} \log r_{ik}, \qquad
              A_{it} = u_i\,\mathrm{sg}(\mathrm{clip}(e^{F_{it}}, 1-\epsilon_f^{low}, 1+\epsilon_f^{high}))

    Shapes: u [B, K], F [B, K, T]; h is `half_life` in tokens. M is 0 on tokens with a ratio above `dual_clip`.
    The loss is DAPO's with A, and a dual clip: where A < 0 it is at most -`dual_clip`·A.

    Edge cases: at the snapshot F = 0, so the first step is DAPO's. A token with u < 0 and a ratio above
    `caution` has an influence between .8 and 1.

    Source: future-KL influenced policy optimization, arXiv 2603.19835; values of ms-swift's `fipo`.

    Deviates: as DAPO does; batches are filtered outside the objective.
    """

    traits: ClassVar[Traits] = Traits("ratio", tokens=True, kl=True)

    half_life: float = positive(32.0)
    influence_low: float = fraction(0.0)
    influence_high: float = nonnegative(0.2)
    caution: float = positive(4.0)
    dual_clip: float = above_one(10.0)

    def parts(self) -> Parts:
        surrogate = clip(self.clip_low, self.clip_high, self.dual_clip)
        return super().parts()._replace(surrogate=surrogate, gate=self._influence)

    def _influence(self, xp: Namespace, log_probs: Array, prepared: PreparedPolicy) -> Array:
        x = TOKEN.log(xp, log_probs, prepared.log_probs_old, prepared)
        counted = xp.where(x > math.log(self.dual_clip or math.inf), 0.0, x)
        decay = 2 ** (-1 / self.half_life) * xp.ones_like(x)
        future = accumulated(xp, counted, decay, prepared.tokens)
        influence = xp.exp(clamped(xp, future))
        wary = (prepared.advantages < 0) & (x > math.log(self.caution))
        usual = xp.clip(influence, 1 - self.influence_low, 1 + self.influence_high)
        return xp.where(wary, xp.clip(influence, *CAUTIOUS), usual)
