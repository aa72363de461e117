"""REINFORCE++: returns standardised over the batch instead of the group, and PPO's clipping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tpo.arrays import Array
from tpo.groups import Groups, masked
from tpo.objectives.advantages import batch_z, centred
from tpo.objectives.base import Traits, flag, inside_unit, nonnegative
from tpo.objectives.kl import K2
from tpo.objectives.kl_in_reward import kl_rewards, to_go
from tpo.objectives.parts import KL, Mean, Parts, WithKL, clip


@dataclass(frozen=True)
class ReinforcePP(WithKL):
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

    traits: ClassVar[Traits] = Traits("ratio", group=False, reference=True, tokens=True, kl=True)

    beta: float = nonnegative(0.01)
    clip: float = inside_unit(0.2)
    group_baseline: bool = flag(False)

    def parts(self) -> Parts:
        return Parts(
            advantage=self._whitened,
            ratio="token",
            surrogate=clip(self.clip, self.clip),
            kl=KL(self.beta, self.kl_correction, K2) if self.group_baseline else KL(),
            weights=Mean("token"),
        )

    def _whitened(self, groups: Groups) -> Array:
        """[B, K, T] G over the sigma of the batch"""
        xp, old = groups.xp, groups.log_probs_old
        if self.group_baseline:
            returns = centred(groups)[..., None] + xp.zeros_like(old)
        else:
            returns = to_go(groups, kl_rewards(groups, self.beta))
        return batch_z(xp, masked(xp, returns, groups.mask), groups.mask)
