"""`tpo demo`: TPO beside PG, GRPO and DG on a bandit where one arm in a hundred pays."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

import numpy as np

import tpo

ARMS = 100
SAMPLES = 100
STEP = 0.1
METHODS = {
    "TPO": tpo.objective("tpo"),
    "GRPO": tpo.objective("grpo"),
    "PG": tpo.objective("reinforce", advantage="score"),
    "DG": tpo.objective("dg", advantage="score"),
}


@dataclass
class Learner:
    """ARMS logits, taught by one objective: Figure 3 of the TPO paper, in NumPy.

    Every step samples actions, scores them, lets the objective `prepare` its signal, and moves the logits by
    STEP against the coefficients d loss/d log-prob, carried to the logits by d log pi(a) = e_a - pi.
    """

    method: str
    rng: np.random.Generator
    logits: np.ndarray = field(default_factory=lambda: np.zeros(ARMS))

    def step(self) -> float:
        """Learn from one batch of samples; the error, 1 - pi(right arm), before it."""
        policy = np.exp(self.logits - self.logits.max())
        policy /= policy.sum()
        actions = self.rng.choice(ARMS, size=SAMPLES, p=policy)
        rewards = (actions == 0) - 0.5
        one_group = self.all_arms if self.method == "TPO" else self.samples
        actions, group = one_group(actions, rewards, np.log(policy))
        objective = METHODS[self.method]
        c = objective.coefficients(group.log_probs_old, objective.prepare(group)).ravel()
        gradient = np.bincount(actions, weights=c, minlength=ARMS) - c.sum() * policy
        self.logits -= STEP * gradient / max(float(np.linalg.norm(gradient)), 1e-12)
        return float(1 - policy[0])

    def samples(
        self, actions: np.ndarray, rewards: np.ndarray, log_policy: np.ndarray
    ) -> tuple[np.ndarray, tpo.Group]:
        """The samples are the candidates."""
        log_probs = log_policy[actions][None, :, None]
        return actions, tpo.Group(log_probs_old=log_probs, scores=rewards[None, :])

    def all_arms(
        self, actions: np.ndarray, rewards: np.ndarray, log_policy: np.ndarray
    ) -> tuple[np.ndarray, tpo.Group]:
        """Every arm is a candidate; its score is the mean reward that the samples gave it."""
        scores = np.bincount(actions, weights=rewards, minlength=ARMS) / SAMPLES
        group = tpo.Group(log_probs_old=log_policy[None, :, None], scores=scores[None, :])
        return np.arange(ARMS), group


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo demo`"""
    command = commands.add_parser(
        "demo", help="TPO beside PG, GRPO and DG on a sparse-reward bandit"
    )
    command.add_argument("--steps", type=int, default=150, help="steps to train (150)")
    command.add_argument("--seeds", type=int, default=20, help="runs to average (20)")
    command.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Train all four side by side, with a live table of their errors."""
    for name in ("steps", "seeds"):
        if getattr(args, name) < 1:
            raise ValueError(f"--{name} is {getattr(args, name)}, expected at least 1")
    run(args.steps, args.seeds)
    print(
        f"{ARMS} arms, one pays; {SAMPLES} samples a step, steps of norm {STEP} in logit space, "
        f"mean over seeds 0..{args.seeds - 1}.\n"
        "The setting is Figure 3 of arXiv 2604.06159; error is 1 - pi(right arm)."
    )
    return 0


def run(steps: int, seeds: int) -> dict[str, np.ndarray]:
    """[steps] mean error of each method before each step; live with rich, plain lines without."""
    teams = {
        method: [Learner(method, np.random.default_rng(seed)) for seed in range(seeds)]
        for method in METHODS
    }
    curves: dict[str, list[float]] = {method: [] for method in METHODS}
    with _Screen(steps) as screen:
        for step in range(1, steps + 1):
            for method, team in teams.items():
                curves[method].append(float(np.mean([learner.step() for learner in team])))
            if step % max(steps // 30, 1) == 0 or step == steps:
                screen.show(step, curves)
    return {method: np.asarray(curve) for method, curve in curves.items()}


class _Screen:
    """A table that follows the run."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        try:
            from rich.live import Live

            self.live: Live | None = Live(auto_refresh=False)
        except ModuleNotFoundError:
            self.live = None

    def __enter__(self) -> _Screen:
        if self.live:
            self.live.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self.live:
            self.live.__exit__(None, None, None)

    def show(self, step: int, curves: dict[str, list[float]]) -> None:
        """Draw the table as of this step."""
        if self.live is None:
            errors = "  ".join(f"{name} {curve[-1]:6.1%}" for name, curve in curves.items())
            print(f"step {step:4}/{self.steps}  error: {errors}", flush=True)
            return
        from rich.table import Table

        table = Table(title=f"error after {step} of {self.steps} steps")
        for column in ("method", "error", "", "steps to 10%"):
            table.add_column(column)
        for name, curve in curves.items():
            reached = next((i for i, error in enumerate(curve) if error < 0.1), None)
            bar = "█" * round(40 * curve[-1])
            table.add_row(name, f"{curve[-1]:.1%}", bar, "-" if reached is None else str(reached))
        self.live.update(table, refresh=True)
