"""`tpo evidence`: summaries of finished runs for the repository, and the pages made of them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo evidence`"""
    command = commands.add_parser(
        "evidence",
        help="finished runs as small committed files, results page and figures made of them",
        description="Adds what DIR holds to DOCS/evidence (a finished run before none, then more "
        "seeds, then the later folder; a comparison under its folder's name), and writes DOCS/results.md, "
        "DOCS/llm-results.md, DOCS/figures and the README's section from it. Without DIR, only the latter.",
    )
    command.add_argument(
        "folders", nargs="*", metavar="DIR", help="as `tpo run` or `tpo train --compare` wrote"
    )
    command.add_argument("--docs", default="docs", metavar="DOCS", help="where it goes (docs)")
    command.add_argument(
        "--check", action="store_true", help="write nothing; fail if a file is not up to date"
    )
    command.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Add, then write what follows; or check."""
    from tpo.reports import publish

    docs = Path(args.docs)
    if args.check:
        if args.folders:
            raise ValueError("--check looks at what is there, and takes no DIR")
        old = publish.stale(docs, publish.kept(docs))
        for path in old:
            print(f"{path} is not what the evidence gives", file=sys.stderr)
        print("run tpo evidence" if old else "up to date")
        return 1 if old else 0
    if args.folders:
        add(docs, args.folders)
    for path in publish.write(docs, publish.kept(docs)):
        print(path)
    return 0


def add(docs: Path, folders: list[str]) -> None:
    """Put the finished runs of the folders to the evidence; say how far each study is."""
    from tpo.reports import comparisons, evidence, publish
    from tpo.reports.gather import gather

    folder = publish.folder_of(docs)
    compared = [one for one in folders if comparisons.holds_one(one)]
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
            print(f"{result.study.name}: {left} runs are not finished, and left out")


def _add_comparison(folder: Path, compared: str) -> None:
    from tpo.llm.comparison.summary import summary
    from tpo.reports import comparisons
    from tpo.reports.styles import slug

    found = summary(compared)
    progress = found["progress"]
    left = progress["cells"] - progress["cells_done"]
    if left:
        print(
            f"{compared}: {left} of {progress['cells']} runs are not finished, and it is left out"
        )
    else:
        print(comparisons.keep(folder, found, slug(Path(compared).resolve().name)))
