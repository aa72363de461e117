"""Checkpoints: a run resumes from its newest whole one; a broken one is set aside, with a message."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tpo.storage.broken import json_object

STATE = "trainer_state.json"
"""The last file of a checkpoint that transformers writes: without it a kill left the checkpoint incomplete."""
PARTS = {
    "weights": ("*.safetensors", "pytorch_model*", "global_step*"),
    "optimizer": ("optimizer*", "global_step*"),
    "scheduler": ("scheduler*", "global_step*"),
    "random state": ("rng_state*",),
}
"""Files of a checkpoint, also of FSDP and DeepSpeed. With `save_only_model` there are weights only."""
BROKEN = "broken-"
"""Before the name of a checkpoint that was set aside."""


def last_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint; whether its files are intact is not looked at."""
    return next((path for path in _newest_first(folder) if (path / STATE).is_file()), None)


def newest_whole(folder: Path) -> tuple[Path | None, list[str]]:
    """The newest checkpoint without a broken file, and a message for each newer one, which is set aside.

    One that a kill left incomplete is removed. Neither stays under its name: transformers would count it among
    the checkpoints to keep.
    """
    messages: list[str] = []
    for path in _newest_first(folder):
        if not (path / STATE).is_file():
            shutil.rmtree(path)
            continue
        fault = broken_file(path) or _wrong_step(path) or _missing_part(path)
        if fault is None:
            return path, messages
        aside = path.with_name(f"{BROKEN}{path.name}")
        shutil.rmtree(aside, ignore_errors=True)
        path.replace(aside)
        messages.append(f"{path} is broken, set aside as {aside.name}: {fault}")
    return None, messages


def _newest_first(folder: Path) -> list[Path]:
    """Checkpoints of a folder, by their step."""
    numbered = [(path.name.rpartition("-")[2], path) for path in folder.glob("checkpoint-*")]
    found = [(int(step), path) for step, path in numbered if step.isdigit() and path.is_dir()]
    return [path for _, path in sorted(found, reverse=True)]


def _wrong_step(checkpoint: Path) -> str | None:
    """What is wrong with the step in a checkpoint's state, if anything."""
    step = json_object((checkpoint / STATE).read_bytes()).get("global_step")
    expected = int(checkpoint.name.rpartition("-")[2])
    return None if step == expected else f"{STATE} holds step {step!r}, expected {expected}"


def _missing_part(checkpoint: Path) -> str | None:
    """What a checkpoint lacks, if anything. Transformers says nothing where it has no optimizer's state."""
    present = {name for name, globs in PARTS.items() for one in globs if any(checkpoint.glob(one))}
    missing = [name for name in PARTS if name not in present]
    return f"it has no {', no '.join(missing)}" if missing and present != {"weights"} else None


def broken_file(folder: Path, names: Sequence[str] = ("*",)) -> str | None:
    """The first of a folder's files, among these names, that is broken, and why; None if all are intact.

    JSON must be an object, safetensors as long as its header says, and an archive of torch must agree with its
    checksums. Weights are not read into memory. Other files are not looked at.
    """
    for path in _files(folder, names):
        try:
            _CHECKS[path.suffix](path)
        except Exception as error:  # each library raises errors of its own
            return f"{path.name} cannot be read ({' '.join(str(error).split())})"
    return None


def _files(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    for path in sorted(path for name in names for path in folder.glob(name)):
        if path.suffix in _CHECKS and path.is_file():
            yield path


def _check_json(path: Path) -> None:
    json_object(path.read_bytes())


def _check_safetensors(path: Path) -> None:
    from safetensors import safe_open

    with safe_open(path, framework="np"):
        pass


def _check_archive(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        if member := archive.testzip():
            raise ValueError(f"the checksum of {member} does not match")


_CHECKS: dict[str, Callable[[Path], Any]] = {
    ".json": _check_json,
    ".safetensors": _check_safetensors,
    ".pt": _check_archive,
    ".pth": _check_archive,
}
