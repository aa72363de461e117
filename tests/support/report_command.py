"""`tpo report` as the command line calls it."""

from __future__ import annotations

from tpo.cli import parser


def report_command(*words: str) -> int:
    """The exit status of `tpo report WORDS`; what it prints goes to stdout, errors are raised."""
    args = parser().parse_args(["report", *words])
    return int(args.run(args))
