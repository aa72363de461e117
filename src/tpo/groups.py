"""Groups: the scored candidates of a batch of contexts, and how their scores are standardised."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, cast

from tpo import checks
from tpo.arrays import Array, Namespace, namespace

LOW = -1e30
"""The log-score that a masked candidate gets: exp(LOW) is 0 and LOW is finite."""

TOLERANCE = 5e-7
"""Scores of a group that differ by at most this share of the largest are equal: float32 rounds by 1e-7."""

SMALLEST, LARGEST = 1e-15, 1e15
"""Differences outside this range are rescaled before they are squared: the squares do not fit float32."""


def masked(xp: Namespace, x: Array, mask: Array | None, fill: float = 0.0) -> Array:
    """`x` where `mask` is True, `fill` elsewhere. A masked NaN has no influence, nor has its gradient."""
    return x if mask is None else xp.where(mask, x, fill)


def group_log_softmax(xp: Namespace, log_scores: Array, mask: Array | None) -> Array:
    """log p over the last axis; a masked candidate has p = 0 and is not in the sum."""
    return xp.log_softmax(masked(xp, log_scores, mask, LOW))


def count(xp: Namespace, mask: Array | None, like: Array) -> Array | float:
    """Candidates per group, [..., 1], at least 1 so that a fully masked group divides safely."""
    if mask is None:
        return float(like.shape[-1])
    return xp.clip(xp.sum(xp.cast(mask, like), axis=-1, keepdims=True), 1.0, None)


def shifted(xp: Namespace, scores: Array, mask: Array | None) -> Array:
    """Scores minus one score of their group, masked ones 0: exactly 0 throughout a constant group.

    A group is constant if its scores differ by at most TOLERANCE times the largest. Means and sigmas are
    computed from the shifted scores, so that rounding cannot make a zero-variance group informative.
    """
    if 0 in scores.shape:
        return scores
    scores = masked(xp, scores, mask)
    if mask is None:
        x = scores - scores[..., :1]
    else:
        lowest = xp.amin(xp.where(mask, scores, -LOW), axis=-1, keepdims=True)
        x = xp.where(mask, scores - lowest, 0.0)
    return xp.where(largest(xp, x) <= rounding(xp, scores), 0.0, x)


def largest(xp: Namespace, x: Array) -> Array:
    """[..., 1] the largest absolute value over the group."""
    return xp.amax(xp.abs(x), axis=-1, keepdims=True)


def rounding(xp: Namespace, scores: Array) -> Array:
    """[..., 1] the difference up to which two scores of a group are equal."""
    return TOLERANCE * largest(xp, scores)


def constant(xp: Namespace, scores: Array, mask: Array | None) -> Array:
    """[...] bool: the scores of the group are equal up to rounding, or every candidate is masked."""
    return largest(xp, shifted(xp, scores, mask))[..., 0] == 0


def standardize(scores: Array, mask: Array | None = None, sigma_floor: float = 0.0) -> Array:
    r"""u = (s - mean)/sigma over the last axis, population sigma; 0 where the group is constant.

    .. math:: u_i = \frac{s_i - \bar s}{\max(\sigma, \sigma_{floor})}, \qquad
              \sigma^2 = \frac{1}{K}\sum_i (s_i - \bar s)^2

    scores: [..., K], mask: [..., K] bool, True where a candidate counts. Masked candidates get 0.
    Scores that differ by at most 5e-7 of the largest are equal: such a difference is rounding.
    sigma_floor: the smallest sigma that is divided by. With it, a group of nearly equal scores has a small u.
    TRL divides by the sample sigma + 1e-4 and verl by the sample sigma + 1e-6; this is neither.
    Source: TPO, arXiv 2604.06159, appendix A.
    """
    xp = checks.grouped(mask, scores=scores)
    if not 0 <= sigma_floor < float("inf"):
        raise ValueError(f"sigma_floor is {sigma_floor!r}, expected a finite number, 0 or above")
    scores = masked(xp, scores, mask)
    checks.finite(xp, "scores", scores)
    return z_scores(xp, scores, mask, sigma_floor)


def z_scores(xp: Namespace, scores: Array, mask: Array | None, sigma_floor: float = 0.0) -> Array:
    """`standardize` without its checks, for arrays that come from `Groups`."""
    x = shifted(xp, scores, mask)
    if 0 in x.shape:
        return x
    size = largest(xp, x)
    plain = (size == 0) | ((size > SMALLEST) & (size < LARGEST))
    unit = xp.where(plain, 1.0, size)
    x = x / unit
    mean, sigma = moments(xp, x, mask)
    if sigma_floor:
        sigma = xp.where(sigma * unit > sigma_floor, sigma, sigma_floor / unit)
    return masked(xp, (x - mean) / xp.where(sigma > 0, sigma, 1.0), mask)


def centred_scores(xp: Namespace, scores: Array, mask: Array | None) -> Array:
    """s - mean(s) over the last axis, exactly 0 where constant."""
    x = shifted(xp, scores, mask)
    return masked(xp, x - moments(xp, x, mask)[0], mask)


def moments(xp: Namespace, x: Array, mask: Array | None) -> tuple[Array, Array]:
    """[..., 1] mean and population sigma over the unmasked entries; masked entries of `x` read 0."""
    if 0 in x.shape:
        nothing = xp.sum(x, axis=-1, keepdims=True)
        return nothing, nothing
    if mask is None:
        return xp.moments(x)
    n = count(xp, mask, x)
    mean = xp.sum(x, axis=-1, keepdims=True) / n
    centred = masked(xp, x - mean, mask)
    return mean, xp.sqrt(xp.sum(centred * centred, axis=-1, keepdims=True) / n)


_AXES = {"valid": 2, "scored": 2, "baseline": 1, "tasks": 1, "progress": 1}
"""How many leading axes of [B, K, T] a field has, if not all three."""

_PER_TOKEN = ("log_probs_old", "token_scores", "log_probs_ref", "log_probs_rollout", "values",
              "sum_pi_squared")  # fmt: skip
"""Numbers per token, which are 0 where masked."""

_EXACT = ("mask", "valid", "scored", "tasks")
"""Fields that do not hold floating-point numbers."""

TOKENS = (
    "mark tokens that were not sampled False in mask=..., and sampled ones have a finite log-prob"
)

_ADVICE = {
    "scores": checks.SCORER,
    "baseline": "give every context a finite number",
    "progress": "give every context the share of training that is done",
}
"""What to do about NaN or infinity in a field; for all other fields, TOKENS."""


@dataclass(frozen=True, eq=False)
class Groups:
    """K scored candidates for each of B contexts; all arrays of one library, float32 or float64.

    Construction sets every masked entry to 0, so padding and NaN have no influence. It also stops gradients:
    arrays need not be detached first. A candidate counts if it is `valid` and has at least one token. In JAX
    the class is a pytree.
    """

    log_probs_old: Array
    """[B, K, T] log-probability of each token under the policy that the update starts from."""
    scores: Array
    """[B, K], or [B, K, R] for R rewards (objectives other than `gdpo` take their sum)."""
    mask: Array | None = None
    """[B, K, T] bool, True on tokens the policy chose; padding is False."""
    valid: Array | None = None
    """[B, K] bool, False for truncated, invalid or unscored candidates."""
    scored: Array | None = None
    """[B, K] bool, candidates whose score counts in their group's mean, sigma and size; by default `valid`.
    With TRL's `mask_truncated_completions` a truncated candidate is scored but not valid: not learnt from."""
    token_scores: Array | None = None
    """[B, K, T] dense rewards, where the task has them."""
    log_probs_ref: Array | None = None
    """[B, K, T] under the reference policy; by default `log_probs_old`."""
    log_probs_rollout: Array | None = None
    """[B, K, T] as the sampling engine reported them; needed by `tis` and `icepop`."""
    values: Array | None = None
    """[B, K, T] a critic's value of the state before each token."""
    sum_pi_squared: Array | None = None
    """[B, K, T] Σ_v pi_v² over the vocabulary v, where each token was sampled (`otb`, `opo`)."""
    baseline: Array | None = None
    """[B] a score to subtract, such as the greedy decode's (`remax`) or the expected score."""
    tasks: Array | None = None
    """[B] integer task of each context (`mt_grpo`)."""
    progress: Array | None = None
    """[B] from 0 to 1, the share of training that is done: for options that are annealed (`tpo:eta_final`)."""

    def __post_init__(self) -> None:
        given = {name: x for name, x in vars(self).items() if x is not None}
        xp = checks.same_library(**given)
        self._check_types(given)
        self._check_shapes(given)
        if xp.library == "jax":
            _register_pytree()
        self._set(**{name: xp.stop_gradient(x) for name, x in given.items() if name not in _EXACT})
        self._clear_masked(xp)
        for name in given:
            if name not in _EXACT:
                checks.finite(xp, name, getattr(self, name), _ADVICE.get(name, TOKENS))

    def _check_types(self, given: dict[str, Array]) -> None:
        checks.floating(**{name: x for name, x in given.items() if name not in _EXACT})
        checks.boolean(mask=self.mask, valid=self.valid, scored=self.scored)
        if self.tasks is not None and "int" not in checks.dtype_name(self.tasks):
            raise TypeError(f"tasks is {checks.dtype_name(self.tasks)}, expected integers")

    def _check_shapes(self, given: dict[str, Array]) -> None:
        shape = tuple(self.log_probs_old.shape)
        if len(shape) != 3 or 0 in shape[1:]:
            raise ValueError(
                f"log_probs_old has shape {list(shape)}, expected [B, K, T] with K and T at least 1: "
                "use T = 1 for single actions"
            )
        for name, x in given.items():
            if name not in ("log_probs_old", "scores"):
                checks.shaped(shape[: _AXES.get(name, 3)], "log_probs_old", **{name: x})
        if tuple(self.scores.shape[:2]) != shape[:2] or len(self.scores.shape) > 3:
            raise ValueError(
                f"scores has shape {list(self.scores.shape)}, expected {list(shape[:2])} "
                "or that with a last axis of rewards, as log_probs_old has"
            )

    def _clear_masked(self, xp: Namespace) -> None:
        tokens, candidates = self.mask, self.valid
        if tokens is not None:
            has_tokens = xp.sum(xp.cast(tokens, self.scores), axis=-1) > 0
            candidates = has_tokens if candidates is None else candidates & has_tokens
        if candidates is None:
            self._set(scored=None)
            return
        tokens = candidates[..., None] & (
            xp.ones_like(self.log_probs_old) > 0 if tokens is None else tokens
        )
        counted = candidates if self.scored is None else self.scored | candidates
        if self.scored is not None:
            self._set(scored=counted)
        per_reward = counted if len(self.scores.shape) == 2 else counted[..., None]
        self._set(mask=tokens, valid=candidates, scores=xp.where(per_reward, self.scores, 0.0))
        for name in _PER_TOKEN:
            if getattr(self, name) is not None:
                self._set(**{name: xp.where(tokens, getattr(self, name), 0.0)})

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def xp(self) -> Namespace:
        """The namespace of the library that this group's arrays belong to."""
        return cast(Namespace, namespace(self.scores))

    @property
    def total(self) -> Array:
        """[B, K] one score per candidate: its score, or the sum of its R rewards."""
        return self.scores if len(self.scores.shape) == 2 else self.xp.sum(self.scores, axis=-1)

    @property
    def counted(self) -> Array | None:
        """[B, K] bool: candidates whose score counts, `scored` if given, else `valid`."""
        return self.valid if self.scored is None else self.scored

    @property
    def reference(self) -> Array:
        """[B, K, T] log-probs of the reference policy, or `log_probs_old` without one."""
        return self.log_probs_old if self.log_probs_ref is None else self.log_probs_ref

    @property
    def lengths(self) -> Array | float:
        """[B, K, 1] tokens per candidate, at least 1."""
        return count(self.xp, self.mask, self.log_probs_old)

    @property
    def sizes(self) -> Array | float:
        """[B, 1] candidates per group whose score counts, at least 1."""
        return count(self.xp, self.counted, self.total)

    @property
    def informative(self) -> Array:
        """[B] bool: the scores of the group differ."""
        return ~constant(self.xp, self.total, self.counted)


_REGISTERED: list[type] = []


def _register_pytree() -> None:
    if _REGISTERED:
        return
    import jax

    names = [f.name for f in fields(Groups)]

    def flatten(group: Groups) -> tuple[list[Any], None]:
        return [getattr(group, name) for name in names], None

    def unflatten(_: None, leaves: Iterable[Any]) -> Groups:
        group = object.__new__(Groups)
        group._set(**dict(zip(names, leaves, strict=True)))
        return group

    jax.tree_util.register_pytree_node(Groups, flatten, unflatten)
    _REGISTERED.append(Groups)
