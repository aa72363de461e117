"""Random batches for laws: sizes, tied scores, masks; drawn with NumPy from a seed, so that a law is cheap."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import Phase, assume, settings
from hypothesis import strategies as st

import tpo

settings.register_profile(
    "laws",
    deadline=None,
    max_examples=30,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],  # without the slow search for causes
)
settings.load_profile("laws")

SEEDS = st.integers(0, 10**6)
SCORES = ("binary", "levels", "continuous")


class Batch(NamedTuple):
    """What `tpo.Groups` takes, log-probs of the policy that is trained, and a generator for the rest."""

    fields: dict[str, Any]
    new: np.ndarray
    rng: np.random.Generator

    @property
    def old(self) -> np.ndarray:
        return self.fields["log_probs_old"]

    @property
    def scores(self) -> np.ndarray:
        return self.fields["scores"]

    def having(self, **fields: Any) -> Batch:
        """The same batch with other fields; None removes one."""
        kept = {name: x for name, x in {**self.fields, **fields}.items() if x is not None}
        return self._replace(fields=kept)

    def on_policy(self) -> Batch:
        """At the snapshot, with neither a reference nor a sampler of its own."""
        return self.having(log_probs_ref=None, log_probs_rollout=None)._replace(new=self.old)


def random_scores(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Scores of [B, K], the first two of every group different."""
    if kind == "continuous":
        return rng.normal(size=shape)
    levels = [0.0, 1.0] if kind == "binary" else [0.0, 0.1, 0.25, 1.0, 7.0]
    scores = rng.choice(levels, shape)
    scores[:, :2] = (0.0, 1.0)
    return scores


@st.composite
def batches(
    draw: Any, kinds: tuple[str, ...] = SCORES, T: int | None = None, masks: bool = False
) -> Batch:
    """1 to 4 contexts of 2 to 6 candidates with 1 to 4 tokens, or T; every field that an objective may need.

    With masks, lengths differ, and the last candidate of some groups is invalid: NaN wherever a mask is False.
    """
    B, K = draw(st.integers(1, 4)), draw(st.integers(3 if masks else 2, 6))
    T = T or draw(st.integers(1, 4))
    kind, rng = draw(st.sampled_from(kinds)), np.random.default_rng(draw(SEEDS))
    old = -rng.exponential(size=(B, K, T)) - 0.05
    fields = {
        "log_probs_old": old,
        "scores": random_scores(rng, (B, K), kind),
        "log_probs_ref": old + 0.1 * rng.normal(size=old.shape),
        "log_probs_rollout": old + 0.05 * rng.normal(size=old.shape),
        "values": rng.random(old.shape),
        "baseline": rng.random(B),
    }
    new = old + 0.2 * rng.normal(size=old.shape)
    if masks:
        mask = np.arange(T) < rng.integers(1, T + 1, size=(B, K, 1))
        valid = np.ones((B, K), bool)
        valid[:, -1] = rng.random(B) < 0.5
        gone = ~(mask & valid[..., None])
        for x in (old, new, *(fields[name] for name in ("log_probs_ref", "log_probs_rollout"))):
            x[gone] = np.nan
        fields["values"][gone] = np.nan
        fields["scores"][~valid] = np.nan
        fields |= {"mask": mask, "valid": valid}
    return Batch(fields, new, rng)


def evaluated(objective: tpo.Objective | str, batch: Batch) -> tuple[float, np.ndarray]:
    """Loss and coefficients [B, K, T] at the batch's new log-probs."""
    if isinstance(objective, str):
        objective = tpo.objective(objective)
    prepared = objective.prepare(tpo.Groups(**batch.fields))
    return float(objective.loss(batch.new, prepared)), objective.coefficients(batch.new, prepared)


def coefficients(objective: tpo.Objective | str, batch: Batch) -> np.ndarray:
    """The second of `evaluated`."""
    return evaluated(objective, batch)[1]


def assert_coefficients_are_the_slope(objective: tpo.Objective, batch: Batch) -> None:
    """Of the loss along a random direction. Both one-sided slopes agree, unless the step crosses a clip bound."""
    prepared = objective.prepare(tpo.Groups(**batch.fields))
    way, step = batch.rng.normal(size=batch.new.shape), 1e-6
    at = [float(objective.loss(batch.new + s * step * way, prepared)) for s in (-1, 0, 1)]
    below, above = (at[1] - at[0]) / step, (at[2] - at[1]) / step
    assume(abs(above - below) < 1e-4)
    c = objective.coefficients(batch.new, prepared)
    np.testing.assert_allclose((above + below) / 2, (c * way).sum(), rtol=1e-5, atol=1e-6)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def close(found: Any, expected: Any, atol: float = 1e-9, message: str = "") -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=atol, err_msg=message)
