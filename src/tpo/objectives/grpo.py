"""Group relative policy optimization (GRPO) and close variants: Dr. GRPO, DAPO, Lite PPO."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from tpo.objectives.advantages import centred, standardized
from tpo.objectives.base import Traits, above_one, choice, flag, inside_unit, nonnegative
from tpo.objectives.parts import KL, Mean, Parts, WithKL, clip
from tpo.objectives.score_scales import scaled_scores


@dataclass(frozen=True)
class GRPO(WithKL):
    r"""PPO's clipped surrogate on scores standardised within the group, with a KL to the reference.

    .. math:: L = -\frac1B\sum_b \frac1K\sum_i\frac{1}{|o_i|}\sum_t
              [\min(r_{it} u_i, \mathrm{clip}(r_{it}, 1\pm\epsilon)u_i) - \beta\, k_3]

    Shapes: u [B, K]. `granularity="token"` is the form above (DeepSeekMath). `granularity="sequence"` is the
    TPO paper's baseline: one ratio per candidate, :math:`\exp\sum_t\log r_{it}`, summed over K with no 1/K,
    averaged over contexts. The KL is to `log_probs_ref`, or to the rollout snapshot without one. With
    `kl_correction` it is r·k3, whose gradient is unbiased in epochs after the first (TRL's default).
    `sigma_floor` is the smallest sigma that scores are divided by.
    `drop_constant` excludes zero-variance groups from the loss and from the mean (`grpo_masked`).
    `dual_clip` is an upper bound of r where u < 0 (as in `ppo`).

    Edge cases: a zero-variance group has u = 0; its KL remains, unless the group is dropped.

    Source: DeepSeekMath, arXiv 2402.03300; the sequence form from arXiv 2604.06159.

    Deviates: exact population sigma where others add 1e-8 to 1e-4; the log-ratio is clamped to ±20.
    """

    traits: ClassVar[Traits] = Traits("ratio", reference=True, tokens=True, kl=True)

    beta: float = nonnegative(0.04)
    clip: float = inside_unit(0.2)
    granularity: str = choice("token", "token", "sequence")
    drop_constant: bool = flag(False)
    sigma_floor: float = nonnegative(0.0)
    dual_clip: float = above_one(0.0)

    def parts(self) -> Parts:
        over = "sequence" if self.granularity == "token" else "group"
        return Parts(
            advantage=partial(standardized, sigma_floor=self.sigma_floor),
            ratio=self.granularity,
            surrogate=clip(self.clip, self.clip, self.dual_clip),
            kl=KL(self.beta, self.kl_correction),
            weights=Mean(over, drop=self.drop_constant),
        )


@dataclass(frozen=True)
class DrGRPO(WithKL):
    r"""GRPO without division by sigma or by length.

    .. math:: L = -\frac1B\sum_b\frac1K\sum_i\frac{1}{L_{max}}\sum_t
              \min(r A_i, \mathrm{clip}(r, 1\pm\epsilon)A_i),
              \qquad A_i = R_i - \bar R

    Shapes: A [B, K]; L_max is `max_length`, or T where it is 0.

    Edge cases: set `max_length` if batches are padded to different T, or the scale depends on the padding.

    Source: Liu et al., arXiv 2503.20783.

    Deviates: nothing.
    """

    traits: ClassVar[Traits] = Traits("ratio", tokens=True, kl=True)

    clip: float = inside_unit(0.2)
    max_length: float = nonnegative(0.0)

    def parts(self) -> Parts:
        return Parts(
            advantage=centred,
            ratio="token",
            surrogate=clip(self.clip, self.clip),
            kl=KL(self.beta, self.kl_correction),
            weights=Mean("constant", length=self.max_length or None),
        )


@dataclass(frozen=True)
class DAPO(WithKL):
    r"""A higher upper clip bound, a mean over tokens, and no zero-variance groups.

    .. math:: L = -\frac{1}{\sum_i |o_i|}\sum_i\sum_t
              \min(r u_i, \mathrm{clip}(r, 1-\epsilon_{low}, 1+\epsilon_{high})u_i)

    Shapes: u [B, K]; the mean runs over all tokens of informative groups.

    Edge cases: a batch without an informative group has a loss of 0. The trainer may replace
    dropped groups by new prompts (see `groups.informative`). Add `overlong_penalty` to the scores first.

    Source: Yu et al., arXiv 2503.14476.

    Deviates: dynamic sampling and reward shaping are outside the objective, in rollout and task.
    """

    traits: ClassVar[Traits] = Traits("ratio", tokens=True, kl=True)

    clip_low: float = inside_unit(0.2)
    clip_high: float = nonnegative(0.28)

    def parts(self) -> Parts:
        return Parts(
            advantage=standardized,
            ratio="token",
            surrogate=clip(self.clip_low, self.clip_high),
            kl=KL(self.beta, self.kl_correction),
            weights=Mean("token", drop=True),
        )


@dataclass(frozen=True)
class LitePPO(WithKL):
    r"""Centre scores within the group, divide by the batch's sigma, take the mean over tokens. No more tricks.

    .. math:: L = -\frac{1}{\sum|o|}\sum_i\sum_t \min(r_{it} A_i, \mathrm{clip}(r_{it}, 1\pm\epsilon)A_i),
              \qquad A_i = \frac{R_i - \bar R}{\sigma_{batch}}

    Shapes: A [B, K]; :math:`\sigma_{batch}` is that of all scores of the batch.

    Edge cases: a group of nearly equal scores has small advantages, where GRPO's are as large as any.

    Source: Liu et al., "Tricks or traps?", arXiv 2508.08221.

    Deviates: nothing.
    """

    traits: ClassVar[Traits] = Traits("ratio", tokens=True, kl=True)

    clip: float = inside_unit(0.2)

    def parts(self) -> Parts:
        return Parts(
            advantage=lambda groups: scaled_scores(groups, "batch_sigma", 0.0),
            ratio="token",
            surrogate=clip(self.clip, self.clip),
            kl=KL(self.beta, self.kl_correction),
            weights=Mean("token"),
        )
