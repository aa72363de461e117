"""Delightful policy gradient (DG): each advantage gated by how surprising its action is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tpo.arrays import Array, Namespace
from tpo.objectives.advantages import ADVANTAGES
from tpo.objectives.base import Traits, choice, positive
from tpo.objectives.parts import Composed, Mean, Parts
from tpo.objectives.surrogates import weighted_likelihood


@dataclass(frozen=True)
class DG(Composed):
    r"""Scale each advantage by a gate that grows with the surprise of a success and falls with a failure's.

    .. math:: L = -\mathrm{mean}[\mathrm{sg}(\sigma(\chi/\eta)\, U)\log\pi], \qquad
              \chi = U \cdot (-\log \pi)

    Shapes: U is the advantage of each token [B, K, T], as in `reinforce`; σ the logistic function; η is
    `gate_temperature`. Summed over tokens, averaged over candidates.

    Edge cases: one epoch per batch; with more it diverges (arXiv 2604.06159, Fig. 18).

    Source: the Delightful Gradient as stated and used in arXiv 2604.06159.

    Deviates: the gate uses the current log-probs in every epoch; no gradient flows through it.
    """

    traits: ClassVar[Traits] = Traits("policy gradient", group=False, epochs=False, tokens=True)

    gate_temperature: float = positive(1.0)
    advantage: str = choice("position", *ADVANTAGES)

    def parts(self) -> Parts:
        return Parts(
            advantage=ADVANTAGES[self.advantage],
            surrogate=weighted_likelihood(self._gate),
            weights=Mean("candidate"),
        )

    def _gate(self, xp: Namespace, log_probs: Array, advantages: Array) -> Array:
        return xp.sigmoid(-advantages * log_probs / self.gate_temperature)
