"""`tpo evidence`: keep results of finished runs in the repository, and generate the results pages from them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tpo.cli.flags.kinds import FOLDER, OUT_FOLDER
from tpo.cli.flags.parser import reads


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo evidence`"""
    command = commands.add_parser(
        "evidence",
        help="add finished runs to docs/evidence and generate the results pages",
        description="Adds the finished runs of each DIR to DOCS/evidence, then generates "
        "the pages of DOCS/research, DOCS/figures and the results section of the README from it. "
        "Without DIR it only generates. If a run is in several places, "
        "the one with more seeds is kept; with equal seeds, the one of the last DIR. A comparison "
        "of language models gets the name of its folder, and replaces an earlier one of that name.",
    )
    command.add_argument(
        "folders",
        nargs="*",
        type=reads(FOLDER),
        metavar="DIR",
        help="folder that `tpo run` or `tpo train --compare` wrote",
    )
    command.add_argument(
        "--docs",
        type=reads(OUT_FOLDER),
        default="docs",
        metavar="DOCS",
        help="the documentation folder (default docs)",
    )
    command.add_argument(
        "--check",
        action="store_true",
        help="write nothing; fail if a generated file is out of date",
    )
    command.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Add the runs, then write the generated files; or check that these are up to date."""
    import tpo.lab.studies  # noqa: F401 - evidence names the studies of the library
    from tpo.reports import publish

    docs = Path(args.docs)
    if args.check:
        if args.folders:
            raise ValueError("--check only reads, and takes no DIR: leave out one of the two")
        old = publish.stale(docs, publish.kept(docs))
        for path in old:
            print(f"{path} is out of date", file=sys.stderr)
        print("generate again with: tpo evidence" if old else "up to date")
        return 1 if old else 0
    if args.folders:
        add(docs, args.folders)
    for path in publish.write(docs, publish.kept(docs)):
        print(path)
    return 0


def add(docs: Path, folders: list[str]) -> None:
    """Add the finished runs of the folders to the evidence, and print how many runs are left out."""
    from tpo.reports import comparisons, evidence, publish
    from tpo.reports.gather import gather

    folder = publish.folder_of(docs)
    compared = [one for one in folders if comparisons.is_comparison(one)]
    for one in compared:
        _add_comparison(folder, one)
    folders = [one for one in folders if one not in compared]
    if not folders:
        return
    before = [folder] if evidence.files(folder) else []
    results = gather([*before, *folders])
    for path in evidence.write(folder, results):
        print(path)
    for result in results:
        left = sum(not cell.done for cell in result.cells)
        if left:
            print(f"{result.study.name}: left out {left} runs that are not finished")


def _add_comparison(folder: Path, compared: str) -> None:
    from tpo.llm.comparison.summary import summary
    from tpo.reports import comparisons
    from tpo.reports.styles import slug

    found = summary(compared)
    progress = found["progress"]
    left = progress["cells"] - progress["cells_done"]
    if left:
        print(f"{compared}: left out, {left} of {progress['cells']} runs are not finished")
    else:
        print(comparisons.keep(folder, found, slug(Path(compared).resolve().name)))
