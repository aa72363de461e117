"""Supervised cross-entropy: an oracle baseline that is given the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tpo.groups import Groups, masked
from tpo.objectives.base import Traits, choice
from tpo.objectives.target_matching import SCORES, PreparedTarget, TargetObjective, score_rule


@dataclass(frozen=True)
class CrossEntropy(TargetObjective):
    r"""Cross-entropy to the known answer, in groups that contain it.

    .. math:: q = e_y, \qquad L = -\frac{1}{B}\sum_b \log p_{b,y}, \qquad
              \frac{\partial L}{\partial \ell_i} = \frac{p_i - 1[i = y]}{B}

    Shapes: scores [B, K] are above 0 on correct candidates and 0 elsewhere; several correct candidates share
    the target equally. With all actions as the group and logits as log-scores this is ordinary classification.

    Edge cases: a group without a correct candidate adds 0.

    Source: the supervised oracle of arXiv 2604.06159, Fig. 4 and 5.

    Deviates: defined over a group of candidates, of which classification is the case K = all actions.
    """

    traits: ClassVar[Traits] = Traits("target", whole_groups=True)

    score: str = choice("sum", *SCORES)

    def _prepare(self, groups: Groups) -> Any:
        xp = groups.xp
        correct = xp.cast(masked(xp, groups.total, groups.valid) > 0, groups.log_probs_old)
        n = xp.sum(correct, axis=-1, keepdims=True)
        answered = (n > 0) & (xp.ones_like(correct) > 0)
        candidates = answered if groups.valid is None else answered & groups.valid
        rule = score_rule(groups, self.score)
        return PreparedTarget(groups.log_probs_old, rule, correct / (n + (n == 0)), candidates)
