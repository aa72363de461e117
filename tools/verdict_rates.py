"""How often the verdicts of tpo.stats are wrong, and how often they find what is there, in simulations.

    python tools/verdict_rates.py [--repeats 2000] [--out FILE]

prints the tables in a few minutes, and keeps them in FILE. A test asks for at most 6% wrong verdicts with
seeds of the kinds in PROMISED, and with steps of the spreads in SPREADS.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tpo.stats.curves import rerun_steps, steps_to
from tpo.stats.repetition import POINTS, mean_range, repeated_steps, repetition
from tpo.stats.significance import LEVEL_OF_TEST, p_values, refuted, seed_effects
from tpo.storage.files import write_json
from tpo.storage.provenance import commit

SEEDS = (3, 5, 10, 20)
CELLS = 32
HORIZON = 400
Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
Rate = Callable[[int], float]
"""From the number of seeds."""


class Seeds(NamedTuple):
    """Errors of seeds: how they are drawn, their mean, and whether they fail completely or not at all."""

    draw: Draw
    mean: float
    split: bool = False


def failing(share: float) -> Seeds:
    """Seeds that end near 1 with this probability, else near 0."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return np.abs((rng.random(shape) < share) - 0.02 * rng.random(shape))

    return Seeds(draw, share + (1 - 2 * share) * 0.01, True)


KINDS = {
    "normal": Seeds(lambda rng, shape: rng.normal(0.3, 0.05, shape), 0.3),
    "skewed (exponential)": Seeds(lambda rng, shape: rng.exponential(0.03, shape), 0.03),
    "3 of 10 seeds fail": failing(0.3),
    "1 of 20 seeds fails": failing(0.05),
    "heavy tail (log-normal)": Seeds(
        lambda rng, shape: rng.lognormal(-4, 1, shape), float(np.exp(-3.5))
    ),
}
PROMISED = tuple(KINDS)[:-1]
SPREADS = (0.2, 0.4, 0.8)
"""Standard deviations of the logarithm of a seed's own steps."""


def differences(kind: str, shape: tuple[int, ...], shift: float = 0.0) -> np.ndarray:
    """Paired differences of two methods, the first of which is lower by `shift` standard deviations of them."""
    rng, draw = np.random.default_rng(0), KINDS[kind].draw
    found = draw(rng, shape) - draw(rng, shape)
    return found - shift * found.std()


def single(n: int, repeats: int, kind: str, shift: float = 0.0) -> float:
    """How often one comparison is significant."""
    return float((p_values(differences(kind, (repeats, n), shift)) <= LEVEL_OF_TEST).mean())


def claims(n: int, repeats: int, kind: str) -> float:
    """How often a claim about 32 comparisons of equal methods does not hold."""
    return float(refuted(differences(kind, (repeats, CELLS, n)), ["rival"] * CELLS).mean())


def uncorrected(n: int, repeats: int, kind: str) -> float:
    """The same if one significant comparison of 32 were enough."""
    found = differences(kind, (repeats, CELLS, n))
    return float(((p_values(found) <= LEVEL_OF_TEST) & (found.mean(-1) > 0)).any(-1).mean())


def together(n: int, repeats: int, kind: str, shift: float = 0.0) -> float:
    """How often 32 comparisons together are significant."""
    found = seed_effects(differences(kind, (repeats, CELLS, n), shift))
    return float((p_values(found) <= LEVEL_OF_TEST).mean())


def published(n: int, repeats: int, kind: str) -> float:
    """How often the mean of an equal experiment is outside the range of a repetition."""
    rng, seeds = np.random.default_rng(1), KINDS[kind]
    low, high = repetition(seeds.draw(rng, (repeats, n)), seeds.split)
    other = seeds.draw(rng, (repeats, n)).mean(-1)
    return float(((other < low) | (other > high)).mean())


def fixed(n: int, repeats: int, kind: str) -> float:
    """How often the true mean is outside the range of the mean."""
    rng, seeds = np.random.default_rng(2), KINDS[kind]
    low, high = mean_range(seeds.draw(rng, (repeats, n)), seeds.split)
    return float(((seeds.mean < low) | (seeds.mean > high)).mean())


def agrees(n: int, repeats: int, spread: float, apart: float = 0.0) -> float:
    """How often two normal experiments agree; spread of seeds, and how far apart the means are, in points."""
    rng = np.random.default_rng(3)
    ours, theirs = spread * rng.normal(size=(2, repeats, n))
    low, high = repetition(ours)
    other = theirs.mean(-1) + apart
    return float(((other - POINTS <= low) & (high <= other + POINTS)).mean())


def steps(n: int, repeats: int, spread: float) -> float:
    """How often the steps of the mean curve of an equal experiment are outside our range; log-normal seeds."""
    rng, x = np.random.default_rng(4), np.arange(1, HORIZON + 1)
    late = 30 * np.exp(spread * rng.normal(size=(repeats, 2, n, 1)))
    outside = 0
    for ours, theirs in 0.5 / (1 + (x / late) ** 7):
        first, other = (steps_to(x, curves.mean(0)) or np.inf for curves in (ours, theirs))
        low, high = repeated_steps(float(first), rerun_steps(x, ours), n, HORIZON)
        outside += not low <= other <= high
    return outside / repeats


def tables(r: int) -> dict[str, Mapping[str, Rate]]:
    """Every table: by title, by row, the rate in r simulations."""
    found: dict[str, Mapping[str, Rate]] = {
        title: {kind: partial(rate, repeats=r, kind=kind) for kind in KINDS}
        for title, rate in {
            "No difference: one comparison is significant": single,
            f"No difference: a claim about {CELLS} comparisons does not hold": claims,
            "the same without a correction for their number": uncorrected,
            f"No difference: {CELLS} comparisons together are significant": together,
            "No difference: a published number differs": published,
            "No difference: the range of the mean excludes it": fixed,
        }.items()
    }
    found["No difference: published steps differ"] = {
        f"seeds vary by {100 * s:.0f}%": partial(steps, repeats=r, spread=s) for s in SPREADS
    }
    found["Power: one comparison is significant"] = {
        f"{kind}, {d} sd apart": partial(single, repeats=r, kind=kind, shift=d)
        for kind in ("normal", "3 of 10 seeds fail")
        for d in (0.5, 1.0, 1.5)
    }
    found[f"Power: {CELLS} comparisons together are significant"] = {
        f"normal, {d} sd apart": partial(together, repeats=r, kind="normal", shift=d)
        for d in (0.1, 0.2, 0.5)
    }
    for apart, title in ((0.0, "Power: equal"), (POINTS, "Error: 3 points apart, but")):
        found[f"{title} numbers agree"] = {
            f"seeds vary by {s} points": partial(agrees, repeats=r, spread=s, apart=apart)
            for s in (0.3, 1.0, 3.0)
        }
    return found


def main() -> None:
    """Print every table, and keep them if asked to."""
    parser = argparse.ArgumentParser(description="Rates of wrong verdicts, and power, in %")
    parser.add_argument("--repeats", type=int, default=2000, help="simulations of each rate")
    parser.add_argument("--out", type=Path, help="a JSON file for the rates")
    args = parser.parse_args()
    code = commit()
    found: dict[str, dict[str, list[float]]] = {}
    for title, rows in tables(args.repeats).items():
        print(f"\n{title}, %\n{'':34}" + "".join(f"n = {n:<4}" for n in SEEDS))
        for name, rate in rows.items():
            rates = [rate(n) for n in SEEDS]
            found.setdefault(title, {})[name] = rates
            print(f"  {name:30}" + "".join(f"{100 * x:7.1f} " for x in rates), flush=True)
    if args.out:
        kept = {"commit": code, "repeats": args.repeats, "seeds": SEEDS, "rates": found}
        write_json(args.out, kept)


if __name__ == "__main__":
    main()
