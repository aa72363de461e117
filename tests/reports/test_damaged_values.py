"""A file of the evidence in which a value is missing or of another type: shown, or named in one line."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import ROOT
from tpo.cli import main

EVIDENCE = ROOT / "docs/evidence"
WRONG = (None, -1, 1.5, "x", [], {}, [1], True, 10**400, float("nan"))
CASES = 25
"""Random places of each file, besides those of its parts that a page needs."""

Place = tuple[str | int, ...]
NEEDED: dict[str, list[Place]] = {
    "mnist.json": [("parts", 0, "tracks", "test_error", "at"), ("origins",), ("seeds",), ("parts",)],
    "llm/qwen_gsm8k.json": [
        ("panels", 1), ("panels", 0, "series", 0), ("table", "rows", 0, "method"),
        ("table", "rows", 0, "coords"), ("methods", 0, "baseline"), ("settings",),
    ],
}  # fmt: skip


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Where something is in nested objects and lists; of a list the first three parts."""
    parts = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[:3])
        if isinstance(value, list)
        else ()
    )
    for key, part in parts:
        yield (*at, key)
        yield from places(part, (*at, key))


def changed(value: Any, at: Place, to: Any) -> Any:
    """A copy with another value at a place; without it if that is `places`."""
    key, *rest = at
    copy: Any = value.copy()
    if rest:
        copy[key] = changed(value[key], tuple(rest), to)
    elif to is places:
        del copy[key]
    else:
        copy[key] = to
    return copy


@pytest.mark.parametrize("name", NEEDED)
def test_a_wrong_value_is_no_traceback(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(shutil.copy(EVIDENCE / name, tmp_path))
    whole, draw = json.loads(path.read_text()), random.Random(0)
    everywhere = sorted(places(whole), key=str)
    cases = [(at, to) for at in NEEDED[name] for to in (places, None, "x", [1])]
    cases += [(draw.choice(everywhere), draw.choice(WRONG)) for _ in range(CASES)]
    given = path if name.startswith("llm") else tmp_path
    statuses = []
    for at, to in cases:
        path.write_text(json.dumps(changed(whole, at, to)))
        statuses.append(main(["report", str(given), "--json"]))
        said = capsys.readouterr().err
        if statuses[-1]:
            assert said.startswith(f"tpo: {path} "), (at, to, said)
            assert said.count("\n") == 1
    assert {*statuses} == {0, 2}
