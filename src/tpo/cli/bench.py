"""`tpo bench`: speed on this machine, as ratios measured in one run."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from importlib import import_module
from typing import Any

from tpo.cli.doctor import installed
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
        "bench", help="speed on this machine, as ratios measured in one run"
    )
    command.add_argument("suite", nargs="*", help=f"what to measure: {', '.join(SUITES)} (all)")
    command.add_argument("--json", action="store_true", help="print JSON with provenance")
    command.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Measure and print; the exit status is 1 where nothing could be measured."""
    for suite in args.suite:
        if suite not in SUITES:
            raise ValueError(f"unknown suite {suite!r}. Valid names: {', '.join(SUITES)}")
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
            + (f"; {row['over_floor']:.1f}x the floor" if "over_floor" in row else "")
        )
    return 0


def _number(row: dict[str, Any], name: str) -> str:
    unit = row.get("unit", "µs")
    return f"{row[name]:,.0f} µs" if unit == "µs" else f"{row[name] / 1e6:,.1f} {unit}"


def measured(suite: str) -> list[dict[str, Any]]:
    """The rows of one suite; none, and a word about it, where what it measures is not installed."""
    try:
        rows: list[dict[str, Any]] = import_module(f"tpo.benchmarks.{suite}").rows()
        missing = "what it measures"
    except ModuleNotFoundError as error:
        rows, missing = [], str(error.name)
    if not rows:
        told = f"{suite}: skipped, {missing} is not installed: {SUITES[suite]}"
        print(told, file=sys.stderr)
    return rows


def provenance() -> dict[str, Any]:
    """Where and with what the numbers were taken."""
    packages = ("numpy", "jax", "torch", "transformers", "trl")
    return {
        "tpo": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "versions": {name: installed(name) for name in packages},
    }
