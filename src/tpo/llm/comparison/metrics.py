"""Where each method of a comparison stands: its numbers seed by seed, and against GRPO's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpo.llm.comparison.method import Method
from tpo.llm.comparison.plan import Plan
from tpo.llm.comparison.run_log import Record, Records, curve
from tpo.stats.curves import first_reach, goal, tail
from tpo.stats.intervals import interval, iqm
from tpo.stats.verdicts import Claim, MethodResult, verdict

BASELINE = "grpo"
"""The objective that others are held against, with the options that serve it best."""
SHARE = 0.9
"""Of the way from the start to the baseline's final accuracy, if that is higher: where methods are timed."""
ROLLOUTS, ERROR = "rollouts", "held-out error"
"""Metrics of verdicts, as `tpo.stats.verdicts` calls them."""


@dataclass(frozen=True)
class Standing:
    """One method: metrics [seeds], NaN where a run has none.

    `threshold` is the accuracy on held-out samples that methods are timed to; `rollouts` says when the mean
    over seeds reaches it, `ratio` what part that is of the baseline's. None where never, or without a baseline.
    """

    method: Method
    values: dict[str, np.ndarray]
    threshold: float | None = None
    rollouts: float | None = None
    ratio: float | None = None
    baseline: bool = False

    def plain(self) -> dict[str, Any]:
        """As the summary holds it."""
        reached = int(np.isfinite(self.values[ROLLOUTS]).sum())
        return {
            "method": self.method.name,
            "label": self.method.label,
            "threshold": self.threshold,
            "rollouts": self.rollouts,
            "ratio": self.ratio,
            "baseline": self.baseline,
            "reached": reached,
            "seeds": len(self.values[ROLLOUTS]),
        }


def standings(found: Records) -> list[Standing]:
    """Every method, as far as its runs are complete."""
    complete = {m: [r for r in group if r.result is not None] for m, group in found.items()}
    best = _baseline(complete)
    threshold = goal(_accuracy(complete[best]), SHARE) if best else None
    baseline = _reached(complete[best], threshold) if best else None
    standing = []
    for method, group in found.items():
        own = _reached(complete[method], threshold)
        ratio = own / baseline if own is not None and baseline else None
        seeds = [_metrics(one, threshold) for one in group]
        names = list(dict.fromkeys(name for seed in seeds for name in seed)) or [ROLLOUTS]
        values = {name: np.array([seed.get(name, np.nan) for seed in seeds]) for name in names}
        standing.append(Standing(method, values, threshold, own, ratio, method == best))
    return standing


def _baseline(complete: dict[Method, list[Record]]) -> Method | None:
    """GRPO with the options that end best, in the mean over seeds; None where none is complete."""
    known = [method for method, group in complete.items() if group and method.objective == BASELINE]
    return max(known, key=lambda method: _accuracy(complete[method])[-1], default=None)


def _accuracy(group: Sequence[Record]) -> np.ndarray:
    """The mean accuracy of held-out samples over these runs, evaluation by evaluation."""
    return np.mean([[row["sampled"] for row in one.evaluations] for one in group], axis=0)


def _reached(group: Sequence[Record], threshold: float | None) -> float | None:
    """Rollouts until the mean accuracy of these runs, on held-out samples, reaches the threshold."""
    if not group or threshold is None:
        return None
    return first_reach(group[0].rollouts, _accuracy(group), threshold)


def _metrics(one: Record, threshold: float | None) -> dict[str, float]:
    """The numbers of a run that is complete."""
    if one.result is None:
        return {}
    recipe, last = one.run.recipe, one.evaluations[-1]
    reward, entropy, flat = (
        curve(one.log, measure, recipe) for measure in ("reward", "entropy", "groups/zero_variance")
    )
    reached = _reached([one], threshold)
    memory = one.result.get("peak_memory")
    found = {
        "final accuracy %": 100 * last["greedy"],
        "final sampled accuracy %": 100 * last["sampled"],
        "mean sampled accuracy %": 100 * one.mean_accuracy,
        f"pass@{recipe.eval_samples} %": 100 * last["pass_at_k"],
        "train score": float(np.nanmean(reward[-100:])),
        "final entropy": float(tail(entropy[None])[0]),
        "informative groups %": 100 * (1 - float(np.nanmean(flat))),
        "clipped steps %": None if one.clipped is None else 100 * one.clipped,
        "KL from the start": last.get("kl"),
        "seconds per step": one.result["seconds_per_step"].get("step"),
        "peak memory GB": None if memory is None else memory / 1e9,
        ROLLOUTS: np.inf if reached is None else reached,
    }
    return {name: value for name, value in found.items() if value is not None}


def rows(one: Standing) -> list[dict[str, Any]]:
    """The lines of the report's table, a metric each; seeds that never reach the threshold are left out."""
    found = []
    for name, values in one.values.items():
        if name == ROLLOUTS:
            if one.threshold is None:
                continue
            name = f"rollouts to {one.threshold:.1%} if reached"
        found.append(_row(one.method.name, name, values[np.isfinite(values)]))
    return found


def _row(method: str, metric: str, values: np.ndarray) -> dict[str, Any]:
    row: dict[str, Any] = {"coords": {}, "method": method, "metric": metric, "published": None}
    if not len(values):
        return {**row, "n": 0}
    low, high = interval([values]) if len(values) > 1 else (None, None)
    return row | {
        "mean": float(values.mean()),
        "median": float(np.median(values)),
        "iqm": float(iqm(values)),
        "iqm_low": low,
        "iqm_high": high,
        "n": len(values),
        "values": values.tolist(),
    }


def verdicts(plan: Plan, standing: Sequence[Standing]) -> list[dict[str, str]]:
    """Each method against the baseline: fewer rollouts to the threshold, a lower error in the end."""
    baseline = next((one for one in standing if one.baseline), None)
    if baseline is None:
        return []
    outcomes = [_outcome(plan, one) for one in standing]
    name = baseline.method.label
    found = []
    for one in standing:
        if one is baseline:
            continue
        words = {}
        if one.threshold is not None:
            words[ROLLOUTS] = (
                f"reaches {one.threshold:.1%} of held-out samples with fewer rollouts, seed by seed,"
            )
        words[ERROR] = "ends with a lower error of held-out samples"
        rival = (baseline.method.name,)
        for metric, does in words.items():
            text = f"{one.method.label} {does} than {name}"
            found.append(verdict(Claim(text, one.method.name, than=rival, metric=metric), outcomes))
    return found


def _outcome(plan: Plan, one: Standing) -> MethodResult:
    """A seed that never reaches the threshold counts with a rollout batch more than the budget."""
    recipe = plan.recipe
    never = (recipe.batches + 1) * recipe.prompts * recipe.group_size
    accuracy = one.values.get("final sampled accuracy %", np.full(plan.seeds, np.nan))
    rollouts = np.where(np.isinf(one.values[ROLLOUTS]), never, one.values[ROLLOUTS])
    known = {ERROR: 1 - accuracy / 100, ROLLOUTS: rollouts}
    done = not np.isnan(accuracy).any()
    return MethodResult({}, one.method.name, one.method.label, done, lambda metric: known[metric])
