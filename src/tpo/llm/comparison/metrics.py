"""Metrics of the methods of a comparison: per seed, and relative to GRPO's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpo.llm.comparison.method import MethodSpec
from tpo.llm.comparison.plan import Plan
from tpo.llm.comparison.run_log import RunLog, RunLogs, accuracy, curve
from tpo.stats.curves import first_reach, goal, tail
from tpo.stats.intervals import interval, iqm
from tpo.stats.verdicts import Claim, MethodResult, verdict

BASELINE = "grpo"
"""The objective that others are compared with, with the options that serve it best."""
GOAL_SHARE = 0.9
"""Methods are timed to this share of the way from the baseline's start to its final accuracy, if higher."""
ROLLOUTS, ERROR = "rollouts", "held-out error"
"""Metrics of verdicts, as `tpo.stats.verdicts` calls them."""


@dataclass(frozen=True)
class MethodMetrics:
    """The metrics of one method, each [seeds], NaN where a run has none.

    `threshold` is the accuracy on held-out samples that methods are timed to. `rollouts` says when the mean
    over seeds reaches it, and `ratio` divides that by the baseline's. None where never, or without a baseline.
    """

    method: MethodSpec
    values: dict[str, np.ndarray]
    threshold: float | None = None
    rollouts: float | None = None
    ratio: float | None = None
    baseline: bool = False

    def to_dict(self) -> dict[str, Any]:
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


def method_metrics(run_logs: RunLogs) -> list[MethodMetrics]:
    """The metrics of every method, from its complete runs."""
    complete = {m: [log for log in logs if log.result is not None] for m, logs in run_logs.items()}
    best = _baseline(complete)
    threshold = goal(accuracy(complete[best])[1], GOAL_SHARE) if best else None
    baseline_rollouts = _rollouts_to(threshold, complete[best]) if best else None
    metrics = []
    for method, logs in run_logs.items():
        rollouts = _rollouts_to(threshold, complete[method])
        ratio = rollouts / baseline_rollouts if rollouts is not None and baseline_rollouts else None
        seeds = [_run_metrics(log, threshold) for log in logs]
        names = list(dict.fromkeys(name for seed in seeds for name in seed)) or [ROLLOUTS]
        values = {name: np.array([seed.get(name, np.nan) for seed in seeds]) for name in names}
        metrics.append(MethodMetrics(method, values, threshold, rollouts, ratio, method == best))
    return metrics


def _baseline(complete: dict[MethodSpec, list[RunLog]]) -> MethodSpec | None:
    """GRPO with the options of the best final accuracy, as the mean over seeds; None where none is complete."""
    known = [method for method, logs in complete.items() if logs and method.objective == BASELINE]
    return max(known, key=lambda method: accuracy(complete[method])[1][-1], default=None)


def _rollouts_to(threshold: float | None, logs: Sequence[RunLog]) -> float | None:
    """Rollouts until the mean accuracy of these runs, on held-out samples, reaches the threshold."""
    if not logs or threshold is None:
        return None
    return first_reach(*accuracy(logs), threshold)


def _run_metrics(log: RunLog, threshold: float | None) -> dict[str, float]:
    """The metrics of a complete run; of any other, none."""
    if log.result is None:
        return {}
    recipe, last = log.run.recipe, log.evaluations[-1]
    reward, entropy, flat = (
        curve(log.rows, measure, recipe)
        for measure in ("reward", "entropy", "groups/zero_variance")
    )
    rollouts = _rollouts_to(threshold, [log])
    memory, clipped = log.result.get("peak_memory"), log.clipped_share
    metrics = {
        "final accuracy %": 100 * last["greedy"],
        "final sampled accuracy %": 100 * last["sampled"],
        "mean sampled accuracy %": 100 * log.mean_accuracy,
        f"pass@{recipe.eval_samples} %": 100 * last["pass_at_k"],
        "train score": float(np.nanmean(reward[-100:])),
        "final entropy": float(tail(entropy[None])[0]),
        "informative groups %": 100 * (1 - float(np.nanmean(flat))),
        "clipped steps %": None if clipped is None else 100 * clipped,
        "KL from the start": last.get("kl"),
        "seconds per step": log.result["seconds_per_step"].get("step"),
        "peak memory GB": None if memory is None else memory / 1e9,
        ROLLOUTS: np.inf if rollouts is None else rollouts,
    }
    return {name: value for name, value in metrics.items() if value is not None}


def table_rows(metrics: MethodMetrics) -> list[dict[str, Any]]:
    """Rows of the report's table, one per metric; seeds that never reach the threshold are left out."""
    rows = []
    for name, values in metrics.values.items():
        if name == ROLLOUTS:
            if metrics.threshold is None:
                continue
            name = f"rollouts to {metrics.threshold:.1%} if reached"
        rows.append(_row(metrics.method.name, name, values[np.isfinite(values)]))
    return rows


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


def verdicts(plan: Plan, metrics: Sequence[MethodMetrics]) -> list[dict[str, str]]:
    """Each method against the baseline: fewer rollouts to the threshold, a lower final error."""
    baseline = next((one for one in metrics if one.baseline), None)
    if baseline is None:
        return []
    outcomes = [_outcome(plan, one) for one in metrics]
    ruled = []
    for one in metrics:
        if one is baseline:
            continue
        claims = {}
        if one.threshold is not None:
            claims[ROLLOUTS] = (
                f"reaches {one.threshold:.1%} of held-out samples with fewer rollouts, seed by seed,"
            )
        claims[ERROR] = "ends with a lower error of held-out samples"
        rival = (baseline.method.name,)
        for metric, does in claims.items():
            text = f"{one.method.label} {does} than {baseline.method.label}"
            ruled.append(verdict(Claim(text, one.method.name, than=rival, metric=metric), outcomes))
    return ruled


def _outcome(plan: Plan, metrics: MethodMetrics) -> MethodResult:
    """A seed that never reaches the threshold is compared with the budget and one more rollout batch."""
    recipe = plan.recipe
    never = (recipe.batches + 1) * recipe.prompts * recipe.group_size
    final = metrics.values.get("final sampled accuracy %", np.full(plan.seeds, np.nan))
    known = {ERROR: 1 - final / 100, ROLLOUTS: metrics.values[ROLLOUTS]}
    done = not np.isnan(final).any()
    method = metrics.method
    return MethodResult({}, method.name, method.label, done, lambda metric: known[metric], never)
