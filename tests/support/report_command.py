"""`tpo report` as the command line calls it."""

from __future__ import annotations

import argparse

from tpo.cli import report


def report_command(*words: str) -> int:
    """The exit status of `tpo report WORDS`; what it prints goes to stdout, errors are raised."""
    parser = argparse.ArgumentParser()
    report.add_parser(parser.add_subparsers())
    args = parser.parse_args(["report", *words])
    return int(args.run(args))
