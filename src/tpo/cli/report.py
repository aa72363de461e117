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
        help="folder that `tpo run --out DIR` or `tpo train --compare` wrote; docs/evidence; or a file of "
        "docs/evidence/llm",
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
    """Of studies (stores and evidence), then of comparisons of language models."""
    from tpo.llm.comparison.summary import summary
    from tpo.reports.comparisons import is_comparison, read_kept
    from tpo.reports.summary import summarise

    kept = [path for path in folders if path.suffix == ".json"]
    compared = [folder for folder in folders if is_comparison(folder)]
    stores = [folder for folder in folders if folder not in (*compared, *kept)]
    return [*(summarise(*stores) if stores else []), *map(summary, compared), *map(read_kept, kept)]
