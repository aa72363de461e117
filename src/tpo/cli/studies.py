"""`tpo studies`: every study with its source, its number of runs and its estimated time on this machine."""

from __future__ import annotations

import argparse
from typing import Any

from tpo.cli.flags.parser import reads
from tpo.cli.lab import outputs
from tpo.options import NAME


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo studies`"""
    command = commands.add_parser(
        "studies",
        help="list the studies (figures and tables of the paper), with their estimated time",
    )
    command.add_argument("study", nargs="?", type=reads(NAME), help="describe this study in detail")
    command.add_argument(
        "--json", action="store_true", help="print the studies as JSON, and nothing else"
    )
    command.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Print the list, or one study in detail."""
    from tpo.lab import studies

    if args.json:
        outputs.print_json(plain([args.study] if args.study else studies.list_studies()))
    elif args.study:
        describe(args.study)
    else:
        listing(studies.list_studies())
    return 0


def plain(names: list[str]) -> dict[str, Any]:
    """The studies as JSON values: their declaration, and the runs and estimated seconds of each scale."""
    from tpo.lab import studies
    from tpo.lab.studies import cost

    speed = cost.machine_speed()
    found = []
    for study in map(studies.get_study, names):
        sizes = {scale: cost.size(study, scale) for scale in study.scales}
        scales = {
            scale: {"runs": size.runs, "seconds": round(size.seconds / speed, 1)}
            for scale, size in sizes.items()
        }
        found.append({**study.to_json(), "estimates": scales})
    return {"studies": found}


def listing(names: list[str]) -> None:
    """A row per study: the runs (each with all seeds) and the estimated time at each scale."""
    from rich.console import Console
    from rich.table import Table

    from tpo.lab import studies
    from tpo.lab.studies import cost

    speed = cost.machine_speed()
    table = Table(caption=cost.explanation(speed))
    table.add_column("study", no_wrap=True)
    table.add_column("source")
    table.add_column("runs", justify="right", no_wrap=True)
    for scale in studies.SCALES:
        table.add_column(scale, justify="right", no_wrap=True)
    for name in names:
        study = studies.get_study(name)
        sizes = [cost.size(study, scale) for scale in studies.SCALES]
        times = [cost.duration(size.seconds / speed) for size in sizes]
        table.add_row(name, study.source, "/".join(str(size.runs) for size in sizes), *times)
    Console().print(table)
    print("Details: tpo studies STUDY. Run one: tpo run STUDY --scale quick")


def describe(name: str) -> None:
    """Print a study's methods, grid, settings, claims and scales."""
    from tpo.lab import studies
    from tpo.lab.studies import cost
    from tpo.objectives.method_syntax import label

    study = studies.get_study(name)
    speed = cost.machine_speed()
    print(f"{study.name}: {study.title} ({study.source})\n\n{study.question}\n\n{study.about}\n")
    print("methods:", ", ".join(label(method, study.labels) for method in study.methods))
    for key, values in study.grid.items():
        print(f"{key}: {', '.join(map(str, values))}")
    print("settings:", ", ".join(f"{key} = {value}" for key, value in study.settings.items()))
    for claim in study.claims:
        print(f"claim: {claim.text}")
    for scale, found in study.scales.items():
        runs, seconds = cost.size(study, scale)
        time = cost.duration(seconds / speed)
        changes = {**found.settings, **found.grid}
        words = ", ".join(f"{key} = {value}" for key, value in changes.items())
        print(
            f"{scale}: {runs} runs, {found.seeds} seeds, {found.episodes} episodes, {time}"
            + (f"; {words}" if words else "")
        )
    print(cost.explanation(speed))
