"""GDPO, for several rewards, and MT-GRPO, for several tasks in one batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tpo.arrays import Array
from tpo.groups import Groups
from tpo.objectives.advantages import standardized
from tpo.objectives.base import Traits, choice, inside_unit, nonnegative, numbers
from tpo.objectives.grpo import GRPO
from tpo.objectives.parts import KL, Mean, Parts, WithKL, clip
from tpo.objectives.score_scales import each_reward


@dataclass(frozen=True)
class GDPO(GRPO):
    r"""Standardise each reward within the group, sum them, then standardise over the batch.

    .. math:: A = \mathrm{z}_{batch}(\sum_r w_r\, \mathrm{z}_{group}(R^{(r)}))

    Shapes: scores [B, K, R]; `reward_weights` has R entries, or none for equal weights. The loss is GRPO's.

    Edge cases: a reward that is constant in a group adds nothing there. With one reward the direction is
    GRPO's, and the batch's sigma sets the scale.

    Source: GDPO, arXiv 2601.05242.

    Deviates: population sigmas without an epsilon.
    """

    traits: ClassVar[Traits] = Traits("policy gradient", reference=True, tokens=True, kl=True)

    reward_weights: tuple[float, ...] = numbers(())

    def parts(self) -> Parts:
        return super().parts()._replace(advantage=self._each_reward)

    def _each_reward(self, groups: Groups) -> Array:
        return each_reward(groups, self.reward_weights, self.sigma_floor)


@dataclass(frozen=True)
class MTGRPO(WithKL):
    r"""GRPO with a weight for each task: tasks that score low or do not improve get a larger share.

    .. math:: L = \sum_j z_j\, \mathrm{mean}_{b \in j,\ informative} L^{GRPO}_b, \qquad
              z = \mathrm{softmax}(w)

    Shapes: `groups.tasks` [B] in 0..J-1, `task_logits` w with J entries. Zero-variance contexts are
    dropped, and the shares z apply to the rest. The share of a task that has none left goes to the others.
    Update w between batches with `task_logits_after`.

    Edge cases: without `tasks` every context is task 0, and the loss is that of `grpo` with `drop_constant`.

    Source: Multi-Task GRPO, arXiv 2602.05547.

    Deviates: the shares are weights in the loss, not sampling rates; zero-variance contexts are always dropped.
    """

    traits: ClassVar[Traits] = Traits("policy gradient", reference=True, tokens=True, kl=True)

    beta: float = nonnegative(0.04)
    clip: float = inside_unit(0.2)
    granularity: str = choice("token", "token", "sequence")
    task_logits: tuple[float, ...] = numbers((0.0,))

    def parts(self) -> Parts:
        over = "sequence" if self.granularity == "token" else "group"
        return Parts(
            advantage=standardized,
            ratio=self.granularity,
            surrogate=clip(self.clip, self.clip),
            kl=KL(self.beta, self.kl_correction),
            weights=Mean(over, times=lambda groups: task_shares(groups, self.task_logits)),
        )


def task_shares(groups: Groups, task_logits: tuple[float, ...]) -> Array:
    """[B, 1, 1] B times the share of each context: z_j over the informative contexts of its task."""
    xp = groups.xp
    kept = xp.cast(groups.informative, groups.log_probs_old)[:, None, None]
    tasks = xp.zeros_like(kept) if groups.tasks is None else groups.tasks[:, None, None]
    if not xp.known_all((tasks >= 0) & (tasks < len(task_logits))):
        raise ValueError(
            f"tasks holds an id outside 0..{len(task_logits) - 1}: give task_logits one entry per task"
        )
    share, total = xp.zeros_like(kept), xp.zeros_like(xp.sum(kept))
    for j, logit in enumerate(task_logits):
        member = kept * xp.cast(tasks == j, kept)
        n = xp.sum(member)
        z = math.exp(logit - max(task_logits))
        share = share + z * member / (n + (n == 0))
        total = total + z * xp.cast(n > 0, kept)
    return share * kept.shape[0] / (total + (total == 0))


def task_logits_after(
    logits: Sequence[float],
    rewards: Sequence[float],
    improvements: Sequence[float],
    step: float = 0.1,
    balance: float = 1.0,
) -> tuple[float, ...]:
    """Task logits for the next batch: lower for tasks that score well or improve.

    w_j ← w_j - step·(improvement_j + balance·reward_j), then centred. `rewards` are mean scores of each task
    in this batch, `improvements` their change since the last. A larger `balance` favours the
    tasks with the lowest scores.
    Source: after arXiv 2602.05547; the constants are ours.
    """
    if not len(logits) == len(rewards) == len(improvements):
        raise ValueError(
            f"logits, rewards and improvements have {len(logits)}, {len(rewards)} and "
            f"{len(improvements)} entries: give one per task"
        )
    moved = [
        w - step * (gain + balance * reward)
        for w, reward, gain in zip(logits, rewards, improvements, strict=True)
    ]
    mean = sum(moved) / max(len(moved), 1)
    return tuple(w - mean for w in moved)
