"""`tpo report`: figures, tables beside the published numbers, verdicts and a playground in one HTML file."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path
from typing import Any

from tpo import reports
from tpo.cli.flags.kinds import OUT_FILE, RESULTS
from tpo.cli.flags.parser import reads
from tpo.cli.lab.outputs import add_output_flags, check, emit, is_quiet


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo report`"""
    command = commands.add_parser(
        "report", help="write results as one HTML file: figures, tables, verdicts, a playground"
    )
    command.add_argument(
        "folders",
        nargs="*",
        type=reads(RESULTS),
        metavar="DIR",
        help="folder that `tpo run`, `compare`, `demo` or `train` wrote with --out DIR; docs/evidence; or a "
        "file of docs/evidence/llm",
    )
    command.add_argument(
        "--out",
        type=reads(OUT_FILE),
        metavar="FILE",
        help="the HTML file (default DIR/report.html)",
    )
    command.add_argument("--open", action="store_true", help="open the report in the browser")
    command.add_argument(
        "--playground", action="store_true", help="only the playground, which needs no runs"
    )
    add_output_flags(command)
    command.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Write the report, print its path, open it with --open."""
    check(args)
    out = Path(args.out) if args.out else None
    if args.playground:
        page = reports.write_playground(out or Path("playground.html"))
        print(page)
    elif args.folders:
        found = _summaries([Path(folder) for folder in args.folders])
        if args.json or args.csv:
            emit(reports.Results(tuple(found)), args)
        if is_quiet(args):
            return 0
        page = reports.write_studies(found, out or _beside(Path(args.folders[0])))
        print(f"{page}\n{page.with_suffix('.md')}")
    else:
        raise ValueError(
            "report needs DIR, the folder that `tpo run STUDY --out DIR` wrote; "
            "or --playground for only the playground"
        )
    if args.open and not webbrowser.open(page.resolve().as_uri()):
        print("no browser could be started: open the file yourself")
    return 0


def _beside(first: Path) -> Path:
    """Where a report is written unless --out says so: in that folder, or beside that file."""
    return (first.parent if first.suffix == ".json" else first) / "report.html"


def _summaries(folders: list[Path]) -> list[dict[str, Any]]:
    """Of studies (stores and evidence), then of runs and comparisons of language models."""
    import tpo.lab.studies  # noqa: F401 - known by name, for evidence and stores of earlier versions
    from tpo.llm.comparison.summary import summary
    from tpo.reports.comparisons import read_kept
    from tpo.reports.summary import summarise

    kept = [path for path in folders if path.suffix == ".json"]
    trained = {folder: _language_models(folder) for folder in folders}
    models = [summary(one) for found in trained.values() for one in found]
    stores = [folder for folder in folders if folder not in kept and not trained[folder]]
    return [*(summarise(*stores) if stores else []), *models, *map(read_kept, kept)]


def _language_models(folder: Path) -> list[Path]:
    """The folder itself if `tpo train` wrote it, or the comparisons in a folder of `tpo demo --llm`."""
    from tpo.reports.comparisons import is_comparison, is_single_run

    if is_comparison(folder) or is_single_run(folder):
        return [folder]
    return sorted(path for path in folder.glob("*/") if is_comparison(path))
