"""Options of a comparison, each declared once: flags and YAML keys are made of them."""

from __future__ import annotations

from dataclasses import dataclass

from tpo.options import COUNT, NAME, Kind, option, optional


def _asked(example: str, symbol: str) -> Kind:
    """Text of a flag that is not empty; or what a file has instead, a list or a table."""
    return Kind(
        f"text such as {example}",
        lambda v: v is None or NAME.allowed(v) or isinstance(v, (list, dict)),
        symbol=symbol,
    )


@dataclass(frozen=True)
class ComparisonOptions:
    """A comparison of several methods."""

    compare: str | None = option(
        None,
        _asked("tpo,grpo", "A,B"),
        "methods: objectives, with options as in tpo:eta=0.5:score=mean",
    )
    seeds: int = option(1, COUNT, "seeds of every method")
    sweep: str | None = option(
        None,
        _asked("learning_rate=3e-6,1e-5", "NAME=A,B"),
        "every method is compared with each of these values of an option",
    )
    tune: str | None = option(
        None,
        _asked("learning_rate=3e-6,1e-5", "NAME=A,B"),
        "every method tries these values of an option, and is reported with its best",
    )
    # a value that one seed alone had chosen made other seeds collapse
    tune_seeds: int = option(2, COUNT, "seeds of tuning, other than those reported")
    tune_batches: int | None = option(
        None, optional(COUNT), "rollout batches of tuning", unset="as many as reported"
    )
    workers: int = option(1, COUNT, "runs at a time, each in a process of its own")
