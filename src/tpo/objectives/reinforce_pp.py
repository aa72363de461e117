"""REINFORCE++: returns standardised over the batch instead of the group, and PPO's clipping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tpo.arrays import Array, Namespace
from tpo.groups import Groups, masked
from tpo.objectives.advantages import advantage, batch_z
from tpo.objectives.aggregation import token_weights
from tpo.objectives.base import Traits, flag, inside_unit, nonnegative
from tpo.objectives.kl import clamped, k2_of
from tpo.objectives.kl_in_reward import kl_rewards, to_go
from tpo.objectives.ratio import ClippedObjective
from tpo.objectives.weighted import prepare_policy


@dataclass(frozen=True)
class ReinforcePP(ClippedObjective):
    r"""Returns whitened over all tokens of the batch, in PPO's clipped surrogate.

    .. math:: A_{it} = \frac{G_{it} - \mathrm{mean}_{batch}G}{\sigma_{batch}(G)}, \qquad
              G_{it} = R_i - \beta\sum_{s \ge t} k_1, \qquad
              L = -\frac{1}{\sum|o|}\sum\min(rA, \mathrm{clip}(r, 1\pm\epsilon)A)

    Shapes: G per token [B, K, T]. Works with K = 1. `group_baseline=True` is "REINFORCE++ with baseline":
    the group mean is subtracted first, and the KL is k2 added to the loss instead of k1 inside the reward.

    Edge cases: a batch whose returns are all equal has A = 0.

    Source: Hu, arXiv 2501.03262.

    Deviates: population sigma over the batch's tokens without an epsilon.
    """

    traits: ClassVar[Traits] = Traits("ratio", group=False, reference=True)

    beta: float = nonnegative(0.01)
    clip: float = inside_unit(0.2)
    group_baseline: bool = flag(False)

    def _prepare(self, groups: Groups) -> Any:
        xp = groups.xp
        if self.group_baseline:
            returns = advantage(groups, "centred") + xp.zeros_like(groups.log_probs_old)
        else:
            returns = to_go(groups, kl_rewards(groups, self.beta))
        returns = masked(xp, returns, groups.mask)
        whitened = batch_z(xp, returns, groups.mask)
        return prepare_policy(groups, whitened, token_weights(groups, "token"))

    def clip_range(self) -> tuple[float, float]:
        return self.clip, self.clip

    def penalty(self, xp: Namespace, d: Array) -> Array:
        return k2_of(d) if self.group_baseline else xp.zeros_like(d)

    def penalty_slope(self, xp: Namespace, d: Array) -> Array:
        return d if self.group_baseline else xp.zeros_like(d)

    def corrected_penalty(self, xp: Namespace, x: Array, kl: Array) -> Array:
        """sg(r)·k2: the gradient of k2 is that of KL(pi‖ref) already, so none flows through r."""
        return xp.exp(xp.stop_gradient(x)) * kl

    def corrected_penalty_slope(self, xp: Namespace, x: Array, kl: Array, slope: Array) -> Array:
        return xp.exp(clamped(xp, x)) * slope
