"""`tpo run STUDY`: run a study, or all of them, and show its table next to the published numbers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tpo import user_code
from tpo.cli.lab import outputs, study_display
from tpo.cli.lab.cells import CELL_FLAGS

if TYPE_CHECKING:
    from tpo.lab.execution import Engine
    from tpo.lab.execution.runner import Request
    from tpo.lab.studies import Study
    from tpo.reports import Results


def main(args: argparse.Namespace) -> int:
    """Run the requested studies."""
    for name, default in CELL_FLAGS.items():
        if getattr(args, name) != default:
            raise ValueError(
                f"--{name.replace('_', '-')} is for a run without a study; a study takes --scale, "
                "--seeds, --methods and --only"
            )
    if args.log:
        raise ValueError(
            "--log is for a run without a study: tpo run --methods ... --log tensorboard"
        )
    from tpo.lab.execution import check_engine, engine

    check_engine(args.engine, args.workers, args.address)
    folder = folder_of(args)
    requests = requests_of(args)
    return run(
        requests, folder, args, engine(args.engine, args.workers, args.save_every, args.address)
    )


def requests_of(args: argparse.Namespace) -> list[Request]:
    """The requested studies, checked before anything runs."""
    from tpo.lab import studies
    from tpo.lab.studies.request_checks import check_request

    if args.study == "all":
        if args.methods or args.only:
            raise ValueError("--methods and --only are for one study; `tpo run all` takes neither")
        chosen = [studies.get_study(name) for name in studies.list_studies(extra=False)]
    else:
        chosen = [_study(args.study)]
    methods = tuple(args.methods.split(",")) if args.methods else ()
    scale = args.scale or "quick"
    asked = [
        (one, scale, args.seeds, methods, pairs(args.only), args.seed_offset) for one in chosen
    ]
    for one in asked:
        check_request(*one)
    from tpo.lab.execution.runner import Request, plan  # with JAX

    requests = [Request(*one) for one in asked]
    for request in requests:
        plan(request)
    return requests


def _study(name: str) -> Study:
    """The study of that name, or the value `FILE.py:NAME`; the store keeps its declaration for reports."""
    from tpo.lab import studies

    if not user_code.is_spec(name):
        return studies.get_study(name)
    found = user_code.value(name)
    if not isinstance(found, studies.Study):
        raise TypeError(f"{name} is a {type(found).__name__}, expected a tpo.lab.studies.Study")
    if found.name in studies.list_studies() and found is not studies.get_study(found.name):
        raise ValueError(
            f"{name} has the name {found.name!r} of another study: choose another name"
        )
    return found


def pairs(texts: Sequence[str] | None) -> dict[str, str]:
    """{"H": "7,8"} of ["H=7,8"] or of ["H=7", "H=8"]."""
    found: dict[str, str] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--only is {text!r}, expected KEY=VALUE such as H=7")
        found[key] = f"{found[key]},{value}" if key in found else value
    return found


def folder_of(args: argparse.Namespace) -> Path:
    """The folder of results: --out, else results/SCALE; with --resume it must exist."""
    folder = Path(args.out or Path("results") / (args.scale or "quick"))
    if args.resume and not (folder / "store.json").is_file():
        raise ValueError(
            f"--resume needs the folder of an earlier run, and {str(folder)!r} is not one: "
            "give it with --out, or omit --resume"
        )
    return folder


def run(
    requests: Sequence[Request],
    folder: Path,
    args: argparse.Namespace,
    engine: Engine | None = None,
) -> int:
    """Run every study, show its table, and print where the results are; after Ctrl-C, how to resume.

    args: with --json and --csv, see `tpo.cli.lab.outputs`.

    One process runs study after study; several workers share the jobs of all studies.
    """
    from tpo.lab.execution import runner
    from tpo.lab.execution.inline import Inline

    together = not isinstance(engine or Inline(), Inline)
    try:
        for group in [requests] if together else [[request] for request in requests]:
            with study_display.watching(
                sum(len(runner.plan(request)) for request in group)
            ) as watch:
                runner.run_all(group, folder, watch, engine)
            for request in group if not outputs.is_quiet(args) else ():
                show_results(folder, request.study.name)
    except KeyboardInterrupt:
        print(
            f"\nstopped; what is done so far is in {folder}. Run the same command again to resume",
            file=sys.stderr,
        )
        return 130
    if args.json or args.csv:
        outputs.emit(results(folder, [request.study.name for request in requests]), args)
    outputs.say(f"saved in {folder}; figures and verdicts: tpo report {folder}", args)
    return 0


def results(folder: Path, names: Sequence[str]) -> Results:
    """The results of these studies in a folder."""
    from tpo.reports import Results, open_results

    return Results(tuple(one for one in open_results(folder).studies if one["name"] in names))


def show_results(folder: Path, name: str) -> None:
    """The table and the verdicts of one study in a folder."""
    from tpo.reports.summary import summarise

    study_display.show(next(found for found in summarise(folder) if found["name"] == name))
