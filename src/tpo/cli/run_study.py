"""`tpo run STUDY`: run a study, or all of them, and show its table next to the published numbers."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tpo import user_code
from tpo.cli.lab import logs, outputs, study_display
from tpo.lab.studies import sweeps
from tpo.objectives.method_syntax import parse

if TYPE_CHECKING:
    from tpo.lab.execution import Engine
    from tpo.lab.execution.jobs import Job, Request
    from tpo.lab.execution.scheduler import Watcher
    from tpo.lab.studies import Study
    from tpo.lab.training import TrainingProgress
    from tpo.reports import Results


def main(args: argparse.Namespace) -> int:
    """Run the requested studies."""
    args.out = args.out or str(Path("results") / (args.scale or "quick"))
    return start(args, lambda: requests_of(args))


def start(args: argparse.Namespace, requested: Callable[[], Sequence[Request]]) -> int:
    """Check the flags, then what is requested, and run it; without --out nothing is kept."""
    outputs.check(args)
    logs.check_service(args.log)
    from tpo.lab.execution import check_engine, engine

    check_engine(args.engine, args.workers, args.address)
    if args.resume and not (Path(args.out) / "store.json").is_file():
        raise ValueError(
            f"--resume needs the folder of an earlier run, and {args.out!r} is not one: "
            "give it with --out, or omit --resume"
        )
    requests = requested()
    if not all(
        request.jobs for request in requests
    ):  # planned, and so checked, before anything runs
        raise ValueError("nothing to run: the study has no methods, so give --methods")
    from tpo.lab.training import Pace

    pace = Pace(args.chunk, args.save_every)
    chosen = engine(args.engine, args.workers, args.address, pace)
    with tempfile.TemporaryDirectory() if not args.out else contextlib.nullcontext(args.out) as out:
        return run(requests, Path(out), args, chosen)


def requests_of(args: argparse.Namespace) -> list[Request]:
    """The requested studies, checked before anything runs."""
    from tpo.lab import studies
    from tpo.lab.studies.request_checks import check_request

    if args.study == "all":
        if args.methods or args.only or args.sweep:
            raise ValueError(
                "--methods, --only and --sweep are for one study; `tpo run all` takes none of them"
            )
        chosen = [studies.get_study(name) for name in studies.list_studies(extra=False)]
    else:
        chosen = [_study(args.study)]
    methods = method_names(args.methods)
    scale, only = args.scale or "quick", pairs(args.only)
    over = sweeps.axes(chosen[0].build, args.sweep or ())
    for study in chosen:
        check_request(study, scale, args.seeds, methods, only, args.seed_offset)
    from tpo.lab.execution.jobs import Request  # with JAX

    found = []
    for study in chosen:
        one = Request(study, scale, args.seeds, methods, only, args.seed_offset)
        words = [word for text in args.sweep or () for word in ("--sweep", text)]
        typed = shlex.split(one.command)
        if user_code.is_spec(args.study):  # the name of such a study is known to its file alone
            typed[typed.index(study.name)] = args.study
        changed = words or args.study not in (study.name, "all")
        asked = shlex.join([*typed, *words]) if changed else ""
        found.append(replace(one, study=sweeps.swept(study, over), asked=asked))
    return found


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


def method_names(text: str | None) -> tuple[str, ...]:
    """("tpo", "grpo") of "tpo,grpo"; a method that is given twice is an error, however it is spelled."""
    names = tuple(text.split(",")) if text else ()
    parsed = [parse(name) for name in names]
    for i, one in enumerate(parsed):
        if one in parsed[:i]:
            raise ValueError(f"--methods holds {names[i]} twice: give each method once")
    return names


def pairs(texts: Sequence[str] | None) -> dict[str, str]:
    """{"H": "7,8"} of ["H=7,8"] or of ["H=7", "H=8"]."""
    found: dict[str, str] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--only is {text!r}, expected KEY=VALUE such as H=7")
        found[key] = f"{found[key]},{value}" if key in found else value
    return found


def run(requests: Sequence[Request], folder: Path, args: argparse.Namespace, engine: Engine) -> int:
    """Run every study, show its table, and print where the results are; after Ctrl-C, how to resume.

    One process runs study after study; several workers share the jobs of all studies.
    """
    from tpo.lab.execution import runner
    from tpo.lab.execution.inline import Inline

    kept = f"what is done so far is in {folder}. Run the same command again to resume"
    groups = [[one] for one in requests] if isinstance(engine, Inline) else [requests]
    try:
        for group in groups:
            with _watching(group, folder, args) as watch:
                runner.run_all(group, folder, watch, engine)
            for request in group if not outputs.is_quiet(args) else ():
                show_results(folder, request.study.name)
    except KeyboardInterrupt:
        print(
            f"\nstopped; {kept if args.out else 'nothing was saved, because no --out was given'}",
            file=sys.stderr,
        )
        return 130
    if args.json or args.csv:
        outputs.emit(results(folder, [request.study.name for request in requests]), args)
    if args.out:
        outputs.say(f"saved in {folder}; figures and verdicts: tpo report {folder}", args)
    return 0


@contextlib.contextmanager
def _watching(
    requests: Sequence[Request], folder: Path, args: argparse.Namespace
) -> Iterator[Watcher]:
    """What shows the progress of the jobs, and logs their curves if --log says so."""
    from tpo.storage.store import Store

    place = (folder if args.out else Path("results")) / "tensorboard"
    log = logs.opened(args.log, place, dict(requests[0].study.settings))
    jobs = sum(len(request.jobs) for request in requests)
    with study_display.watching(jobs) as show, contextlib.closing(log):

        def watch(job: Job, state: TrainingProgress | None) -> None:
            show(job, state)
            if args.log:
                curves = state.curves if state else Store(folder).curves(job.key)
                name = " ".join([job.method, *(f"{k}={v}" for k, v in job.coords.items())])
                log.add(name, curves or {})

        yield watch


def results(folder: Path, names: Sequence[str]) -> Results:
    """The results of these studies in a folder."""
    from tpo.reports import Results, open_results

    return Results(tuple(one for one in open_results(folder).studies if one["name"] in names))


def show_results(folder: Path, name: str) -> None:
    """The table and the verdicts of one study in a folder."""
    from tpo.reports.summary import summarise

    study_display.show(next(found for found in summarise(folder) if found["name"] == name))
