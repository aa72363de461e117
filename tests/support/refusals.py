"""Commands that must be refused, run one after the other in a process that cannot import JAX or torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

HEAVY = ("jax", "jaxlib", "optax", "torch", "transformers", "trl", "accelerate", "datasets", "peft")
"""Libraries whose import would make a mistake's message late."""


class Answer(NamedTuple):
    """What a command said."""

    status: Any
    """the exit status; the name of what was raised; or `import NAME` of a heavy library"""
    said: str
    """on stderr"""

    def problem(self, words: Sequence[str]) -> str:
        """Why this is not a refusal whose line has these words; "" if it is. A list may follow, indented."""
        lines = self.said.splitlines()
        if self.status != 2:
            return f"status {self.status}"
        extra = [line for line in lines[1:] if not line.startswith(("  ", "See "))]
        if extra or not lines or not lines[0].startswith("tpo: "):
            return f"{len(lines)} lines: {self.said[:300]}"
        if "PYTHONDEVMODE" in self.said:
            return f"an error that was not foreseen: {self.said[:300]}"
        missing = [word for word in words if word not in lines[0]]
        return f"without {missing}: {lines[0][:300]}" if missing else ""


def answers(commands: Sequence[Sequence[str]], folder: Path) -> list[Answer]:
    """The answers of commands, in this order, run in `folder` by one process."""
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    return [Answer(*one) for one in json.loads(done.stdout)]


def problems(cases: Sequence[tuple[Sequence[str], Sequence[str]]], folder: Path) -> list[str]:
    """The commands that are not refused as they should; a case is a command, and words of its refusal."""
    found = answers([command for command, _ in cases], folder)
    wrong = [
        f"{' '.join(command)[:200]!r}: {problem}"
        for (command, words), answer in zip(cases, found, strict=True)
        if (problem := answer.problem(words))
    ]
    return wrong


class ImportReached(BaseException):
    """A heavy library is about to be imported."""


class Blocked:
    """Finds no module, and stops at a heavy one."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in HEAVY:
            raise ImportReached(f"import {name}")


def main() -> None:
    """Run the commands of stdin, a list of words each, and print their answers."""
    import contextlib
    import functools
    import io

    from tpo import cli

    sys.meta_path.insert(0, Blocked())  # type: ignore[arg-type]
    cli.parser = functools.cache(cli.parser)  # type: ignore[attr-defined]
    found = []
    for command in json.load(sys.stdin):
        said = io.StringIO()
        status: Any
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            try:
                status = cli.main(command)
            except ImportReached as reached:
                status = str(reached)
            except BaseException as error:
                status = f"{type(error).__name__}: {error}"
        found.append((status, said.getvalue()))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
