"""The command line: `tpo COMMAND`, each command a module with `add_parser` and `main`."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence

from tpo import user_code
from tpo.checks import one_line
from tpo.cli import (
    bench,
    compare,
    completion,
    demo,
    doctor,
    evidence,
    extras,
    report,
    run,
    studies,
    train,
    verl,
)
from tpo.cli.flags.parser import Parser, reads
from tpo.options import one_of
from tpo.version import __version__

COMMANDS = (demo, studies, run, compare, report, evidence, train, verl, bench, doctor)


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = Parser(
        prog="tpo",
        description="Target policy optimization (TPO) and the other objectives of group-based RL: "
        "train language models, run the studies of the TPO paper, compare objectives.",
    )
    top.add_argument("--version", action="version", version=f"tpo {__version__}")
    top.add_argument(
        "--print-completion",
        action=completion.PrintCompletion,
        type=reads(one_of(*completion.SHELLS)),
        choices=completion.SHELLS,
        metavar="SHELL",
        help=f"print a completion script for {', '.join(completion.SHELLS)}, such as: "
        'eval "$(tpo --print-completion bash)"',
    )
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for module in COMMANDS:
        module.add_parser(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 for success, 2 after an error message, 130 after Ctrl-C."""
    command = "tpo"
    given = sys.argv[1:] if arguments is None else arguments
    try:
        args = parser().parse_args(given or ["--help"])
        command = str(args.run.__module__).rpartition(".")[2]
        return int(args.run(args))
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the output ended early, such as `head`
        sys.stderr.close()
        return 0
    except ModuleNotFoundError as error:
        print(f"tpo: {extras.explained(error, command)}", file=sys.stderr)
        return 2
    except Exception as error:
        print(f"tpo: {_explained(error)}", file=sys.stderr)
        return 2


def _explained(error: Exception) -> str:
    """The message of an error."""
    if where := user_code.place(error):
        return f"{where}: {type(error).__name__}: {error}"
    if isinstance(error, (ValueError, TypeError, OSError)):
        return str(error)
    return _unforeseen(error)


def _unforeseen(error: Exception) -> str:
    """Where an error was raised that no message was written for."""
    if sys.flags.dev_mode:
        traceback.print_exception(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"{type(error).__name__}: {one_line(str(error))} ({frame.filename}, line {frame.lineno}; "
        "PYTHONDEVMODE=1 prints the traceback)"
    )
