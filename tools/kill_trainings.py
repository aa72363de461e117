"""Kills `tpo train` at random moments, resumes it, and compares its end, bit by bit, with an undisturbed run.

    PYTHONPATH=tests python tools/kill_trainings.py [--kills 15] [--seed 0] [--out FILE]

A run of a tiny model is killed (SIGKILL, with its scoring processes) between its first row of the log and its
end, and resumed, up to three times. Every other kill is in the middle of a checkpoint. Checkpoints
lie between rollout batches, where equal ends are promised. The exit status is 1 if an end differs in a weight,
a logged number or an evaluation.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

from support.tiny_training import flags, prepare
from tpo.cli import main as command
from tpo.llm.runs import train  # noqa: F401 - imported once, for all runs
from tpo.llm.runs.artifacts import read_lines
from tpo.llm.runs.checkpoints import STATE
from tpo.storage.files import write_json
from tpo.storage.provenance import commit

SETTINGS: dict[str, dict[str, Any]] = {
    "one epoch": {"steps": 12, "save_every": 1, "eval_every": 3},
    "two epochs": {"steps": 16, "epochs": 2, "save_every": 2, "eval_every": 4, "beta": 0.1},
}
"""Kinds of runs, which are killed in turn."""
KILLS_PER_RUN = 3
BY_THE_CLOCK = re.compile("time|seconds|per_second|provenance")
"""Names of what a clock measures, or a date."""
EQUAL = "bit-equal"


class Row(NamedTuple):
    """A line of the table."""

    kill: str
    run: str
    seconds: str
    steps: str
    checkpoints: str
    incomplete: str
    end: str


class Attempt(NamedTuple):
    """One start of a run: how long it trained, and whether it was killed."""

    seconds: float
    killed: bool


def attempt(
    arguments: list[str], out: Path, limit: float | None = None, in_checkpoint: bool = False
) -> Attempt:
    """Start or resume a run in a process of its own; kill it `limit` seconds after its log begins.

    in_checkpoint: not before a checkpoint is being written.
    """
    resume = ["--resume"] if (out / "recipe.json").exists() else []
    process = os.fork()
    if process == 0:
        os.setsid()
        with open(out.with_suffix(".txt"), "ab") as printed:
            os.dup2(printed.fileno(), 1)
            os.dup2(printed.fileno(), 2)
        os._exit(command([*arguments, *resume]))
    began: float | None = None
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        now = time.monotonic()
        if ended:
            if status:
                raise RuntimeError(f"{out}: status {status}: {out.with_suffix('.txt').read_text()}")
            return Attempt(now - (began or now), False)
        if began is None and (out / "log.jsonl").exists():
            began = now
        due = began is not None and limit is not None and now - began >= limit
        if began and due and (not in_checkpoint or incomplete(out)):
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return Attempt(now - began, True)
        time.sleep(0.002)


def end_of(out: Path) -> dict[str, Any]:
    """Everything of a complete run that does not depend on the clock."""
    result = json.loads((out / "result.json").read_text())
    return {
        "weights": (out / "model/model.safetensors").read_bytes(),
        "log": list(map(_without_clock, read_lines(out / "log.jsonl"))),
        "evaluations": read_lines(out / "evaluations.jsonl"),
        "result": _without_clock(result),
    }


def _without_clock(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not BY_THE_CLOCK.search(name)}


def incomplete(out: Path) -> list[Path]:
    """Checkpoints without the last of their files."""
    return [x for x in (out / "checkpoints").glob("checkpoint-*") if not (x / STATE).exists()]


def left_behind(out: Path) -> tuple[str, str, str]:
    """Steps in the log, complete checkpoints and incomplete ones."""
    steps, partial = len(read_lines(out / "log.jsonl")), len(incomplete(out))
    checkpoints = len(list((out / "checkpoints").glob("checkpoint-*")))
    return str(steps), str(checkpoints - partial), str(partial)


def kills(folder: Path, number: int, draw: random.Random) -> Iterator[Row]:
    """A row for each kill, and one for the end of each run."""
    undisturbed = {}
    for name, changes in SETTINGS.items():
        out = folder / name.replace(" ", "-")
        whole = attempt(flags(folder, out.name, **changes), out)
        undisturbed[name] = whole.seconds, end_of(out)
    done = 0
    for run, name in zip(itertools.count(1), itertools.cycle(SETTINGS)):
        seconds, expected = undisturbed[name]
        out = folder / f"run-{run}"
        last, before = Attempt(0.0, True), done
        while last.killed:
            again = done < min(number, before + KILLS_PER_RUN)
            limit = draw.uniform(0, seconds) if again else None
            command_line = flags(folder, out.name, **SETTINGS[name])
            last = attempt(command_line, out, limit, in_checkpoint=done % 2 == 1)
            done += last.killed
            if last.killed:
                yield Row(str(done), f"{run}, {name}", f"{last.seconds:.2f}", *left_behind(out), "")
        found = end_of(out)
        differing = [part for part, content in expected.items() if content != found[part]]
        end = f"differs in {', '.join(differing)}" if differing else EQUAL
        yield Row("", f"{run}, {name}", "", *left_behind(out), end)
        if done >= number:
            return


def main() -> int:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--kills", type=int, default=15)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--out", type=Path, help="a JSON file for the counts")
    chosen = arguments.parse_args()
    code = commit()
    print(" | ".join(Row._fields))
    ends = []
    with TemporaryDirectory() as folder:
        for row in kills(prepare(Path(folder)), chosen.kills, random.Random(chosen.seed)):
            print(" | ".join(row), flush=True)
            ends += [row.end] * bool(row.end)
    equal = ends.count(EQUAL)
    print(f"{chosen.kills} kills; {equal} of {len(ends)} runs end bit-equal to undisturbed ones")
    if chosen.out:
        kept = {"kills": chosen.kills, "runs": len(ends), "equal": equal}
        write_json(chosen.out, {"commit": code, "seed": chosen.seed, **kept})
    return 0 if equal == len(ends) else 1


if __name__ == "__main__":
    sys.exit(main())
