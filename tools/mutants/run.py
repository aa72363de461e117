"""Mutants: each declared fault, put into a copy of the sources, must make the tests fail that it names.

    python tools/mutants/run.py [--workers N] [--out FILE] [WORD ...]

The tables beside this file declare them: a file of src/tpo, a piece of it that occurs once, what takes its
place, and the tests, narrowest first. These must pass without a fault. A mutant with `survives` is one that
no test can tell from the original; the text says why. Words choose mutants by table, file or name.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from tpo.storage.files import write_json
from tpo.storage.provenance import commit

ROOT = Path(__file__).parents[2]
TABLES = Path(__file__).parent
TIME_LIMIT = 300
"""Seconds after which a mutant's tests count as failed: a fault may be a loop without an end."""
FAILED = 1
"""pytest's exit status if tests ran and some failed."""


@dataclass(frozen=True)
class Mutant:
    """One fault: in `file`, `source` becomes `becomes`, and `tests` should fail."""

    table: str
    name: str
    file: str
    source: str
    becomes: str
    tests: tuple[str, ...]
    survives: str = ""

    @property
    def place(self) -> str:
        """Table, file and name."""
        return f"{self.table} {self.file}: {self.name}"

    def applied(self, text: str) -> str:
        """The text of the file with the fault; raises if what it replaces does not occur exactly once."""
        found = text.count(self.source)
        if found != 1:
            raise ValueError(
                f"mutant {self.name!r}: its source text occurs {found} times in {self.file}, expected once: "
                "bring the table up to date"
            )
        return text.replace(self.source, self.becomes)


def declared(tables: Path = TABLES) -> list[Mutant]:
    """The mutants of all tables, by file name and in their order."""
    return [
        Mutant(path.stem, name, **{**row, "tests": tuple(row["tests"])})
        for path in sorted(tables.glob("*.toml"))
        for name, row in tomllib.loads(path.read_text(encoding="utf-8")).items()
    ]


class Copy:
    """A copy of the sources, in which one mutant at a time is tested."""

    def __init__(self, root: Path, source: Path, folder: Path) -> None:
        """Copies `source`; tests are run in `root`, and import from the copy."""
        self.root = root
        self.source = folder / "src"
        shutil.copytree(source, self.source)

    def status(self, mutant: Mutant) -> int:
        """pytest's exit status for the mutant's tests."""
        path = self.source / "tpo" / mutant.file
        original, written = path.read_text(encoding="utf-8"), path.stat().st_mtime
        path.write_text(mutant.applied(original), encoding="utf-8")
        # bytecode counts as current by whole seconds and size, which a mutant may share with the original
        os.utime(path, (written + 10, written + 10))
        try:
            return self.tested(mutant.tests).returncode
        except subprocess.TimeoutExpired:
            return FAILED
        finally:
            path.write_text(original, encoding="utf-8")
            os.utime(path, (written, written))

    def tested(self, tests: Sequence[str], fresh: bool = False) -> subprocess.CompletedProcess[str]:
        """Run tests. Bytecode is kept only if `fresh`: that of a mutant could pass for the original's."""
        settings = {"PYTHONPATH": str(self.source), "PYTHONDONTWRITEBYTECODE": "" if fresh else "1"}
        options = ["-q", "-x", "--no-header", "--tb=short", "-p", "no:cacheprovider"]
        paths = [f"tests/{test}" for test in tests]
        return subprocess.run(
            [sys.executable, "-m", "pytest", *options, *paths],
            cwd=self.root,
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            timeout=None if fresh else TIME_LIMIT,
        )


def outcome(mutant: Mutant, status: int) -> str:
    """What the tests said: `killed`, or `as stated`; everything else must be put right."""
    if status not in (0, FAILED):
        return "tests did not run"
    if mutant.survives:
        return "as stated" if status == 0 else "killed, but stated to survive"
    return "survived" if status == 0 else "killed"


def judged(mutants: Sequence[Mutant], root: Path, workers: int) -> list[tuple[Mutant, str]]:
    """Each mutant with its outcome, printed as it is found; the tests without a fault come first."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        first = Copy(root, root / "src", Path(folder) / "0")
        sound = first.tested(sorted({test for mutant in mutants for test in mutant.tests}), True)
        if sound.returncode:
            raise SystemExit(f"without a fault, the tests fail already:\n{sound.stdout[-3000:]}")
        free: SimpleQueue[Copy] = SimpleQueue()
        free.put(first)
        for i in range(1, workers):
            free.put(Copy(root, first.source, Path(folder) / str(i)))

        def judge(mutant: Mutant) -> tuple[Mutant, str]:
            copy, began = free.get(), time.monotonic()
            found = outcome(mutant, copy.status(mutant))
            free.put(copy)
            print(f"{found:20} {time.monotonic() - began:5.1f} s  {mutant.name}", flush=True)
            return mutant, found

        return list(pool.map(judge, mutants))


def main(words: Sequence[str] | None = None, root: Path = ROOT, tables: Path = TABLES) -> int:
    """Test the mutants; 0 if each is killed, or survives as stated."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workers", type=int, default=2, help="mutants at a time")
    parser.add_argument("--out", type=Path, help="a JSON file for the outcome of each mutant")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only mutants with such a word")
    given = parser.parse_args(words)
    code = commit()
    mutants = [
        mutant
        for mutant in declared(tables)
        if not given.words or any(word in mutant.place for word in given.words)
    ]
    if not mutants:
        parser.error(f"no mutant has {' or '.join(given.words)} in its table, file or name")
    for mutant in mutants:
        mutant.applied((root / "src/tpo" / mutant.file).read_text(encoding="utf-8"))
    found = judged(mutants, root, given.workers)
    wrong = [mutant for mutant, what in found if what not in ("killed", "as stated")]
    killed = sum(what == "killed" for _, what in found)
    stated = sum(what == "as stated" for _, what in found)
    print(f"{len(found)} mutants: {killed} killed, {stated} survive as stated, {len(wrong)} wrong")
    if given.out:
        outcomes = {mutant.place: what for mutant, what in found}
        write_json(given.out, {"commit": code, "mutants": outcomes})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
