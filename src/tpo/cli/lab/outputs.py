"""`--json` and `--csv FILE`: results for programs. With --json nothing else is on stdout."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpo.cli.flags.kinds import TABLE_FILE
from tpo.cli.flags.parser import reads

if TYPE_CHECKING:
    from tpo.reports import Results


def add_output_flags(command: argparse.ArgumentParser) -> None:
    """The two flags."""
    command.add_argument(
        "--json", action="store_true", help="print the results as JSON, and nothing else"
    )
    command.add_argument(
        "--csv",
        type=reads(TABLE_FILE),
        metavar="FILE",
        help="write the table as CSV too; - prints it",
    )


def is_quiet(args: argparse.Namespace) -> bool:
    """Whether stdout is for a program, so that text goes to stderr."""
    return bool(args.json) or args.csv == "-"


def say(text: str, args: argparse.Namespace) -> None:
    """A line for people."""
    print(text, file=sys.stderr if is_quiet(args) else sys.stdout)


def emit(results: Results, args: argparse.Namespace) -> None:
    """Write the results as the flags say."""
    if args.csv == "-":
        sys.stdout.write(results.csv())
    elif args.csv:
        try:
            Path(args.csv).write_text(results.csv(), encoding="utf-8")
        except OSError as error:  # that of a full disk names no file
            raise OSError(error.errno, f"--csv: {error.strerror}", args.csv) from None
        print(f"table written to {args.csv}", file=sys.stderr)
    if args.json:
        print_json(results.to_json())


def print_json(value: Any) -> None:
    """One JSON value on stdout; NaN would not be JSON and is an error."""
    print(json.dumps(value, allow_nan=False))


def check(args: argparse.Namespace) -> None:
    """Raise, before anything runs, if stdout is asked for twice."""
    if args.json and args.csv == "-":
        raise ValueError("--json and --csv - both print on stdout: give --csv a file")
