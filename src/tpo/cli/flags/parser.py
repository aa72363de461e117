"""The parser of commands: a mistake is one line that names the flag, what came and what it accepts."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tpo.checks import close_match
from tpo.options import Kind


def reads(kind: Kind) -> Callable[[str], Any]:
    """What argparse calls with a flag's text, as its `type`."""

    def read(text: str) -> Any:
        try:
            return kind.value("", text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error).strip()) from None

    read.kind = kind  # type: ignore[attr-defined]
    return read


def kind_of(action: argparse.Action) -> Kind | None:
    """The kind of a flag's values, if its values are read."""
    return getattr(action.type, "kind", None)


class Parser(argparse.ArgumentParser):
    """argparse's, with errors of one line, and a suggestion for an unknown flag or command."""

    _words: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._words = args or ()
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._unknown(unknown))
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """An error like any other of a command, without the usage: `main` prints it.

        An unknown flag is named before what is missing.
        """
        unknown = [
            word for word in self._words if word.startswith("--") and not self._is_known(word)
        ]
        if unknown and "arguments are required" in message:
            message = self._unknown(unknown)
        raise ValueError(self._explained(message))

    def _is_known(self, word: str) -> bool:
        """Whether this is a flag, or begins one, or is `--`."""
        flag = word.partition("=")[0]
        return any(known.startswith(flag) for known in self._option_string_actions)

    def _unknown(self, words: Sequence[str]) -> str:
        flags = [word.partition("=")[0] for word in words if word.startswith("-")]
        if not flags:
            return f"unexpected {words[0]!r}: see {self.prog} --help"
        hint = close_match(flags[0], self._option_string_actions)
        return f"unknown flag {flags[0]}.{hint} See {self.prog} --help"

    def _explained(self, message: str) -> str:
        """argparse's message in our words: `argument --seeds: is 'x', ...` is `--seeds is 'x', ...`."""
        found = re.fullmatch(r"argument ([^:]+): (.*)", message, re.DOTALL)
        if not found:
            return message
        name, reason = found[1], found[2]
        action = self._option_string_actions.get(name.partition("/")[0])
        wrong = re.match(r"invalid choice: (.+) \(choose from", reason, re.DOTALL)
        if wrong:
            return self._not_a_choice(name, wrong[1])
        if reason.startswith("expected ") and action is not None:
            kind = kind_of(action)
            return f"{name} needs a value" + (f", expected {kind.accepts}" if kind else "")
        extra = re.fullmatch(r"ignored explicit argument (.*)", reason, re.DOTALL)
        return f"{name} takes no value, and {extra[1]} was given" if extra else f"{name} {reason}"

    def _not_a_choice(self, name: str, given: str) -> str:
        action = next(a for a in self._actions if name in (*a.option_strings, a.metavar, a.dest))
        valid = [str(one) for one in action.choices or ()]
        hint = close_match(given.strip("'"), valid)
        return f"{name} is {given}.{hint} Expected one of {', '.join(valid)}"
