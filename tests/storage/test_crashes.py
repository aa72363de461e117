"""A store that was killed anywhere opens again, with its last checkpoint or the one before, and loses no result."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.crashes import killed_after
from tpo.storage.files import write_bytes, write_json
from tpo.storage.store import Snapshot, Store

SAVES = st.integers(0, 4)
CHANGES = st.integers(0, 60)
CURVES = {"error": np.arange(6.0).reshape(2, 3)}
cheap = settings(max_examples=40, deadline=None)


def snapshot(episode):
    return Snapshot(episode, {"error": np.full((2, episode), 1.0)}, [np.arange(3) + episode])


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "s"


def test_a_file_and_its_folders_are_flushed_before_and_after_it_gets_its_name(folder):
    with killed_after() as made:
        write_bytes(folder / "a" / "b.json", b"1")
    assert made == ["mkdir", "fsync"] * 2 + ["open", "fsync", "replace", "fsync"]


def test_the_kept_file_is_replaced_only_after_the_new_one_is_flushed(folder):
    store = Store(folder)
    store.save("k", snapshot(1))
    with killed_after() as made:
        store.save("k", snapshot(2))
    assert made == ["open", "fsync", "replace", "replace", "fsync"]


def test_a_store_is_opened_again_wherever_its_creation_was_killed(folder):
    for changes in range(20):
        with killed_after(changes) as made:
            Store(folder / str(changes))
        assert len(made) == changes or changes > 6
        Store(folder / str(changes)).begin("k", {"cell": 1})
        assert files(folder / str(changes)) == ["k/cell.json", "store.json"]


@pytest.mark.parametrize("name", ["store.json.4711.part", "store.json.0a1b2c3d.part"])
def test_a_creation_that_was_killed_as_it_wrote_leaves_an_empty_folder(folder, name):
    folder.mkdir()
    (folder / name).write_text('{"ver')
    assert Store(folder).keys() == []
    assert files(folder) == ["store.json"]


def run(store, key, saves, done):
    """A run with that many checkpoints; `done` notes what it has finished."""
    store.begin(key, {"cell": 1})
    for episode in range(1, saves + 1):
        store.save(key, snapshot(episode))
        done.append(episode)
    store.finish(key, CURVES)
    done.append("finish")


@cheap
@given(saves=SAVES, changes=CHANGES, shard=st.booleans())
def test_a_killed_run_has_its_last_checkpoint_or_its_result(saves, changes, shard):
    with tempfile.TemporaryDirectory() as name:
        store, done = Store(Path(name, "s")), []
        key = store.shard_key("k", 0, 2) if shard else "k"
        with killed_after(changes):
            run(store, key, saves, done)
        store = Store(store.folder)
        assert not [path for path in files(store.folder) if path.endswith(".part")]
        found, saved = store.curves(key), store.checkpoint(key)
        if found is not None:
            np.testing.assert_array_equal(found["error"], CURVES["error"])
            assert len(done) >= saves
        else:
            assert "finish" not in done
            last = done[-1] if done else 0
            assert (saved.episode if saved else 0) in (last, last + 1)
        run(store, key, saves, done)
        assert files(store.folder / key) == ["cell.json", "curves.npz"]


@cheap
@given(kills=st.lists(st.integers(0, 25), max_size=6))
def test_runs_that_are_killed_again_and_again_never_go_back(kills):
    with tempfile.TemporaryDirectory() as name:
        store, reached = Store(Path(name, "s")), 0
        for changes in kills:
            with killed_after(changes):
                for episode in range(reached + 1, reached + 4):
                    store.save("k", snapshot(episode))
            saved = Store(store.folder).checkpoint("k")
            now = saved.episode if saved else 0
            assert now >= reached
            assert saved is None or saved.state[0].tolist() == [now, now + 1, now + 2]
            reached = now


@cheap
@given(before=st.binary(max_size=50), after=st.binary(max_size=50), changes=st.integers(0, 5))
def test_a_file_has_its_old_or_its_new_content(before, after, changes):
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "a.npz")
        with killed_after():
            write_bytes(path, before)
        with killed_after(changes) as made:
            write_bytes(path, after)
        assert path.read_bytes() == (after if "replace" in made else before)


@cheap
@given(changes=st.integers(0, 12), saves=st.integers(0, 2))
def test_what_a_kill_left_beside_a_result_is_removed(changes, saves):
    with tempfile.TemporaryDirectory() as name:
        store = Store(Path(name, "s"))
        for episode in range(1, saves + 1):
            store.save("k", snapshot(episode))
            store.save(store.shard_key("k", 0, 1), snapshot(episode))
        with killed_after(changes):
            store.finish("k", CURVES)
        store = Store(store.folder)
        if store.curves("k") is not None:
            store.discard("k")
            assert files(store.folder / "k") == ["curves.npz"]
        else:
            assert (store.checkpoint("k").episode if saves else 0) == saves


def test_a_part_of_a_writer_that_lives_is_left_alone(folder):
    """A store that is opened meanwhile removes only what a killed writer left."""
    store = Store(folder)
    (folder / "x.npz.4711.part").write_text("")
    (folder / "thesis.tex.part").write_text("")
    opened = []

    def open_meanwhile(descriptor):
        opened.append(Store(folder))
        return flush(descriptor)

    flush, os.fsync = os.fsync, open_meanwhile
    try:
        write_json(folder / "k" / "cell.json", {"cell": 1})
    finally:
        os.fsync = flush
    assert len(opened) == 3  # of the file, of its folder before, and after
    assert store.description("k") == {"cell": 1}
    assert files(folder) == ["k/cell.json", "store.json", "thesis.tex.part"]
