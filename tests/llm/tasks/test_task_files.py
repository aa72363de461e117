"""Files of tasks: a broken one is named; those of the hub are read at a revision."""

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("trl")

from support.broken_files import CORRUPTIONS, broken
from tpo.llm.tasks import task


@pytest.mark.parametrize("corruption", CORRUPTIONS)
@pytest.mark.parametrize(
    ("name", "kind"),
    [("own.jsonl", "{}/own.jsonl"), ("train.jsonl", "gsm8k:{}"), ("test.jsonl", "gsm8k:{}")],
)
def test_a_broken_file_of_a_task_is_named(
    tmp_path: Path, corruption: str, name: str, kind: str
) -> None:
    for one in ("own.jsonl", "train.jsonl", "test.jsonl"):
        key = "prompt" if one == "own.jsonl" else "question"
        rows = [{key: f"how much is {i} + {i} in {one}?", "answer": str(2 * i)} for i in range(9)]
        (tmp_path / one).write_text("\n".join(map(json.dumps, rows)))
    with broken(tmp_path / name, corruption), pytest.raises(ValueError) as raised:
        task(kind.format(tmp_path), held_out=2)
    assert str(raised.value).startswith(str(tmp_path / name))
    assert "\n" not in str(raised.value)
    assert len(task(kind.format(tmp_path), held_out=2).held_out) == 2


@pytest.mark.parametrize(("name", "asked"), [("gsm8k", None), ("gsm8k@v1", "v1")])
def test_gsm8k_of_the_hub_is_read_at_a_revision(
    name: str, asked: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task knows its commit: `datasets` keeps the rows in a folder of that name."""

    class Hub(list[dict[str, str]]):
        cache_files: ClassVar = [{"filename": f"/cache/main/0.0.0/{'c' * 40}/gsm8k-train.arrow"}]

    def load(*_: Any, split: str, revision: str | None) -> Hub:
        assert revision == asked
        return Hub([{"question": f"{split} {i}", "answer": str(i)} for i in range(4)])

    monkeypatch.setattr("datasets.load_dataset", load)
    found = task(name, held_out=2)
    assert found.revision == "c" * 40
    assert len(found.train) == 4
    with pytest.raises(ValueError, match="a folder has no revision, give gsm8k:a"):
        task("gsm8k@v1:a")
