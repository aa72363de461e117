"""TIS and IcePop: corrections of any objective for log-probs that differ between sampler and trainer."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from tpo.arrays import Array, Namespace
from tpo.groups import Groups
from tpo.objectives.base import WRAPPERS, Objective, Wrapper, choice, positive
from tpo.objectives.kl import LIMIT
from tpo.options import Kind


class PreparedCorrection(NamedTuple):
    """What the inner objective prepared, and the factor on each token's gradient."""

    log_probs_old: Array
    inner: Any
    factor: Array


@dataclass(frozen=True)
class Correction(Objective):
    """The inner objective with each token's gradient times a fixed factor; the loss value is unchanged.

    Attributes that a correction does not have, such as `beta`, are those of the inner objective.
    """

    prepared_type: ClassVar[type] = PreparedCorrection

    inner: Objective

    def __getattr__(self, name: str) -> Any:
        if name == "inner" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.inner, Objective):
            raise TypeError(f"inner is a {type(self.inner).__name__}, expected a tpo.Objective")
        if uncorrected(self.inner).traits.behaviour:
            raise ValueError(
                f"{type(uncorrected(self.inner)).__name__} measures from the policy that sampled, so that "
                f"{type(self).__name__} would correct for it twice: leave the correction out"
            )

    @property
    def uses_progress(self) -> bool:
        """Whether the inner objective's options are annealed."""
        return self.inner.uses_progress

    @property
    def traits(self) -> Any:  # type: ignore[override]
        """The traits of the inner objective, which now needs `log_probs_rollout`."""
        return self.inner.traits._replace(behaviour=True)

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        """The sampling engine's log-probs, and what the inner objective needs."""
        return "log_probs_rollout", *self.inner.needs

    def _prepare(self, groups: Groups) -> Any:
        xp = groups.xp
        x = xp.clip(groups.log_probs_old - groups.log_probs_rollout, -LIMIT, LIMIT)
        groups, factor = self.correction(xp, groups, x)
        return PreparedCorrection(groups.log_probs_old, self.inner.prepare(groups), factor)

    def correction(self, xp: Namespace, groups: Groups, x: Array) -> tuple[Groups, Array]:
        """The groups without removed candidates, and the factor [B, K, T]; x = log pi_train - log pi_infer."""
        raise NotImplementedError

    def _loss(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        detached = xp.stop_gradient(log_probs)
        scaled = detached + prepared.factor * (log_probs - detached)
        return self.inner._loss(xp, scaled, prepared.inner)

    def _coefficients(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        return prepared.factor * self.inner._coefficients(xp, log_probs, prepared.inner)


@dataclass(frozen=True)
class TIS(Correction):
    r"""Truncated importance sampling: each token's gradient times min(pi_train/pi_infer, cap).

    .. math:: c_{it} \leftarrow \min(\frac{\pi_{train}}{\pi_{infer}}, C)\, c_{it}

    Shapes: needs `groups.log_probs_rollout` [B, K, T], the sampling engine's own log-probs.

    Edge cases: equal log-probs leave the objective as it is. For target objectives the factors break
    Σ(p - q) = 0; use `icepop(level="sequence")` for those.

    Source: Yao et al., "Your efficient RL framework secretly brings you off-policy RL training", 2025.

    Deviates: the loss value is the uncorrected one; only gradients change.
    """

    cap: float = positive(2.0)

    def correction(self, xp: Namespace, groups: Groups, x: Array) -> tuple[Groups, Array]:
        return groups, xp.clip(xp.exp(x), None, self.cap)


@dataclass(frozen=True)
class IcePop(Correction):
    r"""Keep only tokens (or candidates) whose pi_train/pi_infer lies in [low, high].

    .. math:: c_{it} \leftarrow 1[low \le \frac{\pi_{train}}{\pi_{infer}} \le high]\, c_{it}

    Shapes: needs `groups.log_probs_rollout`. `level="token"` sets the
    gradient of the other tokens to 0. `level="sequence"` uses the geometric mean over a candidate's tokens, and
    removes the candidate from its group: a target is then a distribution over the candidates that are left.

    Edge cases: a group that loses all its candidates adds 0.

    Source: IcePop (Ring-1T), arXiv 2510.18855.

    Deviates: kept tokens have factor 1; compose with `tis` to weight them too.
    """

    low: float = positive(0.5)
    high: float = positive(5.0)
    level: str = choice("token", "token", "sequence")

    @property
    def drops_candidates(self) -> bool:
        """Whether a candidate's log-probs may remove it from its group, which changes all others."""
        return self.level == "sequence"

    def correction(self, xp: Namespace, groups: Groups, x: Array) -> tuple[Groups, Array]:
        if self.level == "sequence":
            x = xp.sum(x, axis=-1, keepdims=True) / groups.lengths
        inside = (xp.exp(x) >= self.low) & (xp.exp(x) <= self.high)
        if self.level == "token":
            return groups, xp.cast(inside, x)
        kept = inside[..., 0] if groups.valid is None else inside[..., 0] & groups.valid
        scored = None if groups.scored is None else inside[..., 0] & groups.scored
        return replace(groups, valid=kept, scored=scored), xp.cast(inside, x)


def tis(objective: Objective, cap: float = 2.0) -> Objective:
    """`objective` with truncated importance sampling between sampling engine and trainer."""
    return TIS(objective, cap)


def icepop(
    objective: Objective, low: float = 0.5, high: float = 5.0, level: str = "token"
) -> Objective:
    """`objective` without the tokens (or candidates) on which sampling engine and trainer disagree."""
    return IcePop(objective, low, high, level)


_NUMBER = r"(\d+\.?\d*|\.\d+)"
_WRITTEN = re.compile(rf"tis(?:@{_NUMBER})?|icepop(_sequence)?(?:@{_NUMBER}-{_NUMBER})?")


def _is_written(value: object) -> bool:
    found = _WRITTEN.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return False
    cap, _, low, high = found.groups()
    return (cap is None or float(cap) > 0) and (low is None or 0 < float(low) < float(high))


CORRECT = Kind(
    "'tis', 'icepop' or 'icepop_sequence', with bounds such as 'tis@2' or 'icepop@0.5-5'",
    _is_written,
    symbol="NAME",
)


def corrected_by(objective: Objective, written: str) -> Objective:
    """The objective with the correction that the option `correct` names, such as `tis@2` or `icepop@0.5-5`."""
    found = _WRITTEN.fullmatch(written)
    assert found is not None
    cap, sequence, low, high = found.groups()
    if written.startswith("tis"):
        return tis(objective) if cap is None else tis(objective, float(cap))
    bounds = {} if low is None else {"low": float(low), "high": float(high)}
    return icepop(objective, level="sequence" if sequence else "token", **bounds)


WRAPPERS["correct"] = Wrapper(CORRECT, corrected_by)


def uncorrected(objective: Objective) -> Objective:
    """The objective inside all corrections."""
    while isinstance(objective, Correction):
        objective = objective.inner
    return objective


def uncorrected_prepared(prepared: Any) -> Any:
    """What the objective inside all corrections prepared."""
    while isinstance(prepared, PreparedCorrection):
        prepared = prepared.inner
    return prepared
