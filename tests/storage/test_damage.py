"""Files that are damaged without being cut off, and files that are under way while others open the store."""

import os
from pathlib import Path

import numpy as np
import pytest

from tpo.storage import npz
from tpo.storage.files import write_json
from tpo.storage.store import Store


def test_an_archive_that_notes_more_arrays_than_it_has_is_refused() -> None:
    content = bytearray(npz.to_bytes({"a": np.zeros(2), "b": np.ones(3)}))
    content[-12] = 3
    with pytest.raises(ValueError, match="2 arrays, expected 3"):
        npz.from_bytes(bytes(content))


def test_a_list_is_no_description(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path / "s")
    store.begin("k", {"cell": 1})
    (store.folder / "k" / "cell.json").write_text("[1]")
    assert store.description("k") == {}
    assert "a list, expected an object" in capsys.readouterr().err
    assert (store.folder / "k" / "cell.json.broken").read_text() == "[1]"


def test_a_file_under_way_survives_that_the_store_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "s")
    under_way, flush = [], os.fsync

    def open_meanwhile(descriptor: int) -> None:
        parts = list(store.folder.glob("k/*.part"))
        if parts and not under_way:
            under_way.extend(parts)
            Store(store.folder)
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", open_meanwhile)
    write_json(store.folder / "k" / "cell.json", {"cell": 1})
    assert len(under_way) == 1
    assert store.description("k") == {"cell": 1}
