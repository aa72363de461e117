"""Kill small runs at random points with SIGKILL; what they end with is compared with undisturbed runs.

python tools/kill_runs.py [--runs inline,processes] [--kills N] [--seed N] [--out FILE]

A killed command is started again, as a user would do. A kill is survived if its run ends with the bits of an
undisturbed one, and leaves no file behind that an undisturbed one does not have.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from tpo.declarations.study import Scale
from tpo.lab import studies
from tpo.storage.files import write_json
from tpo.storage.provenance import commit
from tpo.storage.store import Store

SETTINGS = {"data": "digits", "B": 16, "hidden": (16,), "test_every": 500}
STUDY = replace(
    studies.get_study("mnist"),
    name="kills",
    methods=("dg", "pg"),
    scales={"smoke": Scale(2, 8000, SETTINGS)},
)
OF_STUDY = ("run", f"{__file__}:STUDY", "--scale", "smoke")
OWN = ("--task", "digits", "--batch", "16", "--seeds", "2", "--episodes", "4000", "--chunk", "50")
RUNS = {
    "own": ("run", "--methods", "dg,pg", *OWN),
    "inline": OF_STUDY,
    "processes": (*OF_STUDY, "--workers", "2"),
    "ray": (*OF_STUDY, "--engine", "ray", "--workers", "2"),
}
"""Commands that run the lab in each of its ways; `own` is a run without a study."""
GAVE_UP = ("workers died on", "a worker did not start")
"""What a command says that gives up because its workers were killed; the next one resumes."""
OUTLIVES = 30.0
"""Seconds in which the workers of a killed command must end."""


@dataclass
class Kills:
    """The kills of one kind of run: of the command itself, of its workers, and those that it survived."""

    commands: int = 0
    workers: int = 0
    survived: int = 0

    @property
    def all(self) -> int:
        """Kills so far."""
        return self.commands + self.workers


class Run:
    """A run in a process group of its own. A context manager: nothing that it started outlives the block."""

    def __init__(self, name: str, folder: Path) -> None:
        """Start or resume it."""
        command = [sys.executable, "-m", "tpo", *RUNS[name], "--save-every", "0", "--out", folder]
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed at the exit
        self.process = subprocess.Popen(
            [*map(str, command)],
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
            stdout=subprocess.DEVNULL,
            stderr=self.log,
            start_new_session=True,
        )
        self.below: set[int] = set()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(self.process.pid)
        for pid in self.below:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.log.close()

    def kill(self, pid: int) -> None:
        """Kill the command or one of its processes; a killed command must take those that compute along."""
        self.below = children(self.process.pid) or self.below
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if pid == self.process.pid:
            self.process.wait()
            end = time.monotonic() + OUTLIVES
            while any(map(computes, self.below)):
                if time.monotonic() > end:
                    raise RuntimeError(f"a worker outlived its command by {OUTLIVES:.0f} s")
                time.sleep(0.1)

    def wait(self, seconds: float | None = None) -> int | None:
        """The exit status; None if it has not ended by then."""
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(seconds)
        return None

    def errors(self) -> str:
        """What it has written to stderr."""
        self.log.seek(0)
        return self.log.read()


def children(pid: int) -> set[int]:
    """The processes below this one, by number."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                parents[int(path.parent.name)] = int(fields[1])
    found: set[int] = set()
    more = {pid}
    while more:
        more = {child for child, parent in parents.items() if parent in more} - found
        found |= more
    return found


def workers(pid: int) -> list[int]:
    """The processes below this one that compute: they have the compiler's library open."""
    return [child for child in sorted(children(pid)) if computes(child)]


def computes(pid: int) -> bool:
    """Has the process the compiler's library open?"""
    with suppress(OSError):
        return "jaxlib" in Path(f"/proc/{pid}/maps").read_text()
    return False


def undisturbed(name: str, folder: Path) -> float:
    """Run it once; the seconds that it took."""
    began = time.monotonic()
    with Run(name, folder) as run:
        if run.wait():
            raise RuntimeError(f"{name} failed without a kill:\n{run.errors()}")
    return time.monotonic() - began


def disturbed(name: str, kills: int, expected: Path, seconds: float, seed: int) -> Kills:
    """Kill runs at uniformly random times, until there were so many kills and the last run has ended."""
    rng = np.random.default_rng(seed)
    found = Kills()
    with tempfile.TemporaryDirectory() as place:
        for number in itertools.count():
            folder, before = Path(place, str(number)), found.all
            while not ended(name, folder, found, lambda: rng.uniform(0, seconds), kills):
                pass
            if not same(folder, expected):
                return found
            found.survived += found.all - before
            if found.all >= kills:
                return found
    raise AssertionError("unreachable")


def ended(name: str, folder: Path, found: Kills, moment: Callable[[], float], kills: int) -> bool:
    """Start or resume a run and kill it or a worker; False if it must be started again."""
    with Run(name, folder) as run:
        while found.all < kills and run.wait(pause := moment()) is None:
            computing = [pid for pid in workers(run.process.pid) if pid != run.process.pid]
            own = not computing or found.workers > found.commands
            print(f"{name}: kill {found.all + 1} after {pause:.1f} s, ", end="", file=sys.stderr)
            print(f"{reached(folder)} episodes saved", file=sys.stderr)
            if own:
                found.commands += 1
                run.kill(run.process.pid)
                return False
            found.workers += 1
            run.kill(computing[int(pause * 1000) % len(computing)])
        status = run.wait()
        if status and not any(words in run.errors() for words in GAVE_UP):
            raise RuntimeError(f"{name} ended with status {status}:\n{run.errors()}")
        return status == 0


def reached(folder: Path) -> int:
    """Episodes that are on the disk, over all runs of the folder and their shards."""
    if not (folder / "store.json").exists():
        return 0
    store = Store(folder)
    found = [
        store.so_far(key) if store.curves(key) is None else store.curves(key)
        for key in store.keys()  # noqa: SIM118
    ]
    return sum(next(iter(curves.values())).shape[1] for curves in found if curves)


def same(folder: Path, expected: Path) -> bool:
    """Have both folders the same files, and the same bits in their curves?"""
    here, there = Store(folder), Store(expected)
    files = [
        {path.relative_to(one) for path in one.rglob("*") if path.is_file()}
        for one in (folder, expected)
    ]
    if files[0] != files[1]:
        return False
    pairs = [(here.curves(key) or {}, there.curves(key) or {}) for key in there.keys()]  # noqa: SIM118
    return all(
        a.keys() == b.keys() and all(a[name].tobytes() == b[name].tobytes() for name in b)
        for a, b in pairs
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of kills; the exit status is 1 if one was not survived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", default=",".join(RUNS), help="which of " + ", ".join(RUNS))
    parser.add_argument("--kills", type=int, default=9, help="kills of each (default 9)")
    parser.add_argument("--seed", type=int, default=0, help="of the random times (default 0)")
    parser.add_argument("--out", type=Path, help="a JSON file for the table")
    args = parser.parse_args(arguments)
    kept: dict[str, dict[str, int]] = {}
    print(
        f"commit {commit()}\n\n| run | kills of the command | of a worker | survived |\n|---|---|---|---|"
    )
    for name in args.runs.split(","):
        with tempfile.TemporaryDirectory() as place:
            seconds = undisturbed(name, Path(place, "s"))
            found = disturbed(name, args.kills, Path(place, "s"), seconds, args.seed)
        print(
            f"| {name} | {found.commands} | {found.workers} | {found.survived} of {found.all} |",
            flush=True,
        )
        kept[name] = asdict(found)
    if args.out:
        write_json(args.out, {"commit": commit(), "seed": args.seed, "runs": kept})
    return int(any(one["survived"] < one["commands"] + one["workers"] for one in kept.values()))


if __name__ == "__main__":
    sys.exit(main())
