"""`snapshot_advantages`: an objective as one advantage per row, for trainers that accept nothing else.

At the rollout snapshot many objectives give all tokens of a candidate one coefficient that does not depend on
log-probs: with ratio scores p is uniform, and TPO's coefficient is 1/K - q. Such an objective is an advantage.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tpo.arrays import Array, namespace
from tpo.groups import Groups
from tpo.objectives.base import Objective, entry, objective
from tpo.objectives.parts import Composed

REDUCTIONS = {
    "group-sum-token-sum": "sum over a group's rows and their tokens, mean over groups",
    "group-sum-token-mean": "sum over a group's rows, mean over their tokens, mean over groups",
    "seq-mean-token-sum": "sum over tokens, mean over rows",
    "seq-mean-token-mean": "mean over tokens, mean over rows",
    "token-mean": "mean over all tokens of the batch",
}
"""How a trainer makes a loss of -advantage·log-prob, in verl's words where verl has one."""

TOLERANCE = 1e-4
"""Coefficients closer than this share of the largest are equal; a real dependence is of order 1."""


def snapshot_advantages(
    scores: Array | Sequence[float],
    group_ids: Array | Sequence[Any],
    objective: str | Objective = "tpo",
    lengths: Array | Sequence[int] | None = None,
    reduction: str = "group-sum-token-sum",
) -> Array:
    r"""One advantage per row, with which a policy gradient is the objective's gradient at the snapshot.

    .. math:: A_i = q_i - \frac1K \quad \text{for TPO with ratio scores}, \qquad
              \nabla \Big(-\frac1B \sum_b \sum_i A_i \sum_t \log \pi_{it}\Big) = \nabla L

    scores: [N], or [N, R] for R rewards; lists, NumPy, JAX or torch. The result is of that kind.
    group_ids: [N] the prompt of each row, any values. Rows may be in any order and groups of any size.
    objective: a name or a value. By name, the `tpo` family compares candidates by ratio, not by sum, and a KL
    inside the reward (`reinforce_pp`) is left out.
    lengths: [N] tokens of each row. Needed where the objective and the reduction treat lengths differently.
    reduction: what the trainer does with -advantage·log-prob (or ·ratio), a key of `REDUCTIONS`. By default
    it sums over a group; with `seq-mean-token-sum` the same gradient needs TPO's :math:`K q_i - 1`.

    It is exact for one update on fresh rollouts, without clipping. An objective is refused if its
    coefficients at the snapshot depend on log-probs or differ between tokens: it is no advantage.
    """
    if reduction not in REDUCTIONS:
        listing = "; ".join(f"{name}: {what}" for name, what in REDUCTIONS.items())
        raise ValueError(f"reduction is {reduction!r}, expected one of {listing}")
    rows = _rows(scores, group_ids, lengths)
    chosen = _value(objective)
    convert = _converter(chosen, scores)
    if isinstance(objective, str) and _has_kl_in_reward(chosen, convert):
        chosen = replace(chosen, beta=0.0)  # type: ignore[call-arg]
    _refuse_unless_advantage(chosen, reduction, lengths is None, convert)
    return _like(scores, _advantages(chosen, rows, reduction, convert))


class _Rows(NamedTuple):
    """Rows of a batch: scores [N] or [N, R], the group and the place in it of each, tokens of each."""

    scores: np.ndarray
    group: np.ndarray
    place: np.ndarray
    lengths: np.ndarray


Convert = Callable[[np.ndarray], Array]


def _advantages(chosen: Objective, rows: _Rows, reduction: str, convert: Convert) -> np.ndarray:
    """[N] the advantage of each row under the reduction."""
    old = np.zeros((*_shape(rows), int(rows.lengths.max())))
    c = _coefficients(chosen, rows, old, convert)[rows.group, rows.place, 0]
    return 0.0 - c / _weights(rows, reduction)


def _weights(rows: _Rows, reduction: str) -> np.ndarray:
    """[N] the weight of each token of a row under the reduction."""
    n_groups, n_rows = rows.group.max() + 1, len(rows.group)
    if reduction == "token-mean":
        return np.full(n_rows, 1.0 / rows.lengths.sum())
    share = 1.0 / (n_groups if reduction.startswith("group-sum") else n_rows)
    return share / (rows.lengths if reduction.endswith("token-mean") else np.ones(n_rows))


def _shape(rows: _Rows) -> tuple[int, int]:
    return int(rows.group.max()) + 1, int(rows.place.max()) + 1


def _coefficients(
    chosen: Objective, rows: _Rows, old: np.ndarray, convert: Convert, ref: np.ndarray | None = None
) -> np.ndarray:
    """[B, K, T] the objective's coefficients at the snapshot `old`, with a reference where one is given."""
    at = (rows.group, rows.place)
    scores = np.zeros((*_shape(rows), *rows.scores.shape[1:]))
    scores[at] = rows.scores
    tokens = np.zeros(old.shape, dtype=bool)
    tokens[at] = np.arange(old.shape[-1]) < rows.lengths[:, None]
    reference = None if ref is None else convert(ref)
    groups = Groups(convert(old), convert(scores), mask=convert(tokens), log_probs_ref=reference)
    found = chosen.coefficients(groups.log_probs_old, chosen.prepare(groups))
    return np.asarray(_to_numpy(found), dtype=np.float64)


def _rows(scores: Any, group_ids: Any, lengths: Any) -> _Rows:
    values = np.asarray(_to_numpy(scores), dtype=np.float64)
    if values.ndim not in (1, 2) or not len(values):
        raise ValueError(
            f"scores has shape {list(values.shape)}, expected [N] or [N, R] with N at least 1: "
            "one entry per row, not per group"
        )
    ids = [_hashable(one) for one in _to_list(group_ids)]
    tokens = np.ones(len(values), int) if lengths is None else np.asarray(_to_numpy(lengths))
    for name, found in (("group_ids", ids), ("lengths", tokens)):
        if len(found) != len(values):
            raise ValueError(f"{name} has {len(found)} entries and scores {len(values)} rows")
    if tokens.dtype.kind not in "iu" or tokens.min() < 1:
        raise ValueError("lengths holds something else than whole numbers of at least 1")
    number: dict[Any, int] = {}
    group = np.array([number.setdefault(one, len(number)) for one in ids])
    seen = np.zeros(len(number), int)
    place = np.empty(len(ids), int)
    for i, b in enumerate(group):
        place[i] = seen[b]
        seen[b] += 1
    return _Rows(values, group, place, tokens)


def _value(chosen: str | Objective) -> Objective:
    """The objective; by name, sequence scores that would be sums of log-probs are ratios."""
    if isinstance(chosen, Objective):
        return chosen
    defaults = {f.name: f.default for f in fields(entry(chosen).make)}
    sums = defaults.get("score") == "sum"
    return objective(chosen, **({"score": "ratio"} if sums else {}))


def _refuse_unless_advantage(
    chosen: Objective, reduction: str, no_lengths: bool, convert: Convert
) -> None:
    name = type(chosen).__name__
    if chosen.needs:
        raise ValueError(
            f"{name} needs {' and '.join(chosen.needs)}, and an advantage is made from scores alone: use its "
            "loss or coefficients"
        )
    if _has_kl_in_reward(chosen, convert):
        raise ValueError(
            f"{name} has the KL to the reference inside the reward, and scores alone do not hold it: set "
            "beta=0, and subtract the KL from scores, or add it to the loss"
        )
    if not _is_advantage(chosen, convert):
        by_ratio = getattr(chosen, "score", "ratio") in ("ratio", "mean_ratio")
        way = "use its loss or coefficients" if by_ratio else "choose score='ratio'"
        raise ValueError(
            f"{name} is no advantage: at the rollout snapshot its coefficients depend on log-probs, or differ "
            f"between the tokens of a row: {way}"
        )
    if no_lengths and not _needs_no_lengths(chosen, reduction, convert):
        other = [one for one in REDUCTIONS if _needs_no_lengths(chosen, one, convert)]
        without = f", or a reduction that needs none: {', '.join(other)}" if other else ""
        raise ValueError(
            f"{name} under the reduction {reduction!r} needs lengths: pass the tokens of each row{without}"
        )


@lru_cache
def _has_kl_in_reward(chosen: Objective, convert: Convert) -> bool:
    """Whether the advantages depend on the reference: no KL is in the loss, and coefficients do; by trial."""
    if not isinstance(chosen, Composed) or chosen.needs or chosen.parts().kl.beta:
        return False
    rows = _trial(chosen, ragged=True)
    old, ref = np.random.default_rng(1).normal(-1, 1, size=(2, *_shape(rows), rows.lengths.max()))
    found, there = (_coefficients(chosen, rows, old, convert, one) for one in (None, ref))
    return not _equal(found, there)


@lru_cache
def _is_advantage(chosen: Objective, convert: Convert) -> bool:
    """Whether coefficients at the snapshot are one number per row, whatever the log-probs; by trial."""
    rows = _trial(chosen, ragged=True)
    draws = np.random.default_rng(1).normal(-1, 3, size=(2, *_shape(rows), rows.lengths.max()))
    found = [_coefficients(chosen, rows, old, convert)[rows.group, rows.place] for old in draws]
    first = found[0][:, :1]
    tokens = np.arange(draws.shape[-1]) < rows.lengths[:, None]
    return all(_equal(np.where(tokens, c, first), first) for c in found)


@lru_cache
def _needs_no_lengths(chosen: Objective, reduction: str, convert: Convert) -> bool:
    """Whether the advantages are the same for all lengths; by trial."""
    one, many = (
        _advantages(chosen, _trial(chosen, ragged), reduction, convert) for ragged in (False, True)
    )
    return _equal(one, many)


def _trial(chosen: Objective, ragged: bool) -> _Rows:
    """Random rows: groups of two to four, one of them with equal scores."""
    generator = np.random.default_rng(0)
    sizes = (2, 4, 3, 4)
    n_rewards = len(getattr(chosen, "reward_weights", ()))
    scores = generator.normal(size=(sum(sizes), n_rewards) if n_rewards else sum(sizes))
    scores[-sizes[-1] :] = 1.0
    lengths = generator.integers(1, 6, size=sum(sizes)) if ragged else np.ones(sum(sizes), int)
    group = np.repeat(np.arange(len(sizes)), sizes)
    return _Rows(scores, group, np.concatenate([np.arange(k) for k in sizes]), lengths)


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return bool((np.abs(a - b) <= TOLERANCE * np.abs(b).max()).all())


def _converter(chosen: Objective, scores: Any) -> Convert:
    """To NumPy where the objective has a closed form, else to the library of `scores`, which differentiates."""
    if type(chosen)._coefficients is not Objective._coefficients:
        return np.asarray
    xp = namespace(scores)
    if xp is None or xp.library == "numpy":
        raise TypeError(
            f"{type(chosen).__name__} has no closed form of its coefficients, and scores is a "
            f"{type(scores).__name__}: pass scores as a torch tensor or a JAX array"
        )
    return sys.modules["torch"].from_numpy if xp.library == "torch" else _to_jax


def _to_jax(x: np.ndarray) -> Array:
    jax = sys.modules["jax"]
    return jax.numpy.asarray(
        x if x.dtype == bool else x.astype(jax.dtypes.canonicalize_dtype(float))
    )


def _to_numpy(x: Any) -> Any:
    """A torch tensor as a NumPy array; anything else as it is."""
    xp = namespace(x)
    if xp is None or xp.library != "torch":
        return x
    x = x.detach().cpu()
    return (x.double() if x.is_floating_point() else x).numpy()


def _to_list(ids: Any) -> list[Any]:
    return list(ids) if namespace(ids) is None else np.asarray(_to_numpy(ids)).tolist()


def _hashable(one: Any) -> Any:
    return tuple(one) if isinstance(one, list) else one


def _like(scores: Any, found: np.ndarray) -> Array:
    """[N] of the library of `scores`, and of its dtype where that is float32 or float64."""
    xp = namespace(scores)
    if xp is None:
        return found
    dtype = str(scores.dtype).removeprefix("torch.")
    kept = found.astype(dtype if dtype in ("float32", "float64") else "float32")
    if xp.library == "numpy":
        return kept
    if xp.library == "torch":
        return sys.modules["torch"].from_numpy(kept).to(scores.device)
    return sys.modules["jax"].numpy.asarray(kept)
