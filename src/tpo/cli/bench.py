"""`tpo bench`: the speed of tpo on this machine, as ratios to baselines measured in the same run."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from importlib import import_module
from typing import Any

from tpo.cli.doctor import installed
from tpo.cli.flags.parser import reads
from tpo.options import one_of
from tpo.version import __version__

SUITES = {
    "objectives": "pip install 'tpo[lab]' for JAX, or 'tpo[llm]' for torch",
    "lab": "pip install 'tpo[lab]'",
    "llm": "pip install 'tpo[llm]'",
    "verl": "pip install 'tpo[verl]'",
}
"""What can be measured, and how to install what it needs."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo bench`"""
    command = commands.add_parser(
        "bench",
        help="measure speed on this machine",
        description="Measures time and peak memory on this machine. Each number is printed with that of a "
        "baseline in the same run, and with their ratio: below 1, tpo needs less.",
    )
    command.add_argument(
        "suite",
        nargs="*",
        type=reads(one_of(*SUITES)),
        help=f"suites to run: {', '.join(SUITES)} (default all)",
    )
    command.add_argument(
        "--json", action="store_true", help="print JSON, with versions and machine"
    )
    command.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Measure and print a row per comparison; the exit status is 1 if nothing could be measured."""
    rows = [row for suite in args.suite or SUITES for row in measured(suite)]
    if not rows:
        return 1
    if args.json:
        print(json.dumps({"provenance": provenance(), "rows": rows}, indent=2))
        return 0
    print(f"{'':32}{'ours':>11}{'baseline':>13}{'ratio':>8}")
    for row in rows:
        print(
            f"{row['name']:32}{_number(row, 'microseconds'):>11}{_number(row, 'baseline_microseconds'):>13}"
            f"{row['ratio']:>7.2f}x  against {row['baseline']}"
            + (
                f"; {row['over_lower_bound']:.1f}x the lower bound"
                if "over_lower_bound" in row
                else ""
            )
        )
    return 0


def _number(row: dict[str, Any], name: str) -> str:
    unit = row.get("unit", "µs")
    return f"{row[name]:,.0f} µs" if unit == "µs" else f"{row[name] / 1e6:,.1f} {unit}"


def measured(suite: str) -> list[dict[str, Any]]:
    """The rows of one suite; none, with a message on stderr, if a package of the suite is not installed."""
    try:
        rows: list[dict[str, Any]] = import_module(f"tpo.benchmarks.{suite}").rows()
        missing = "what it measures"
    except ModuleNotFoundError as error:
        rows, missing = [], str(error.name)
    if not rows:
        message = f"{suite}: skipped, {missing} is not installed: {SUITES[suite]}"
        print(message, file=sys.stderr)
    return rows


def provenance() -> dict[str, Any]:
    """The machine and the versions of the measurement."""
    packages = ("numpy", "jax", "torch", "transformers", "trl")
    return {
        "tpo": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "versions": {name: installed(name) for name in packages},
    }
