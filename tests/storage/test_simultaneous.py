"""Several processes may create one store, add to it, and read it, all at once."""

import json
import threading

import numpy as np

from tpo.storage.files import write_json
from tpo.storage.locks import lock, locked
from tpo.storage.store import Snapshot, Store


def at_once(count, act):
    """What each of several threads gives that begin together; each opens its own files, as a process does."""
    found, ready = [None] * count, threading.Barrier(count)

    def run(i):
        ready.wait()
        try:
            found[i] = act(i)
        except Exception as error:
            found[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_a_store_is_created_by_several_at_once(tmp_path):
    for repetition in range(50):
        folder = tmp_path / str(repetition)
        found = at_once(3, lambda i, folder=folder: Store(folder).keys())
        assert found == [[]] * 3
        assert [path.name for path in folder.iterdir()] == ["store.json"]


def test_a_changed_file_loses_nothing_where_it_is_locked(tmp_path):
    store = Store(tmp_path / "s")
    path = store.folder / "counts.json"
    write_json(path, [])

    def add(i):
        with locked(store.mark):
            found = path.read_text()
            write_json(path, [*json.loads(found), i])

    assert at_once(8, add) == [None] * 8
    assert sorted(json.loads(path.read_text())) == list(range(8))


def test_a_locked_file_is_free_once_it_is_closed(tmp_path):
    path = tmp_path / "x"
    path.write_text("")
    with open(path, "r+b") as first, open(path, "r+b") as second:
        assert lock(first)
        assert not lock(second, wait=False)
        first.close()
        assert lock(second, wait=False)


def test_checkpoints_are_read_whole_while_they_are_written_and_the_folder_is_opened(tmp_path):
    store = Store(tmp_path / "s")

    def act(i):
        for episode in range(1, 30):
            if i == 0:
                curves = {"error": np.full((2, episode), episode)}
                store.save("k", Snapshot(episode, curves, [np.full(50, episode)]))
            else:
                found = Store(store.folder).checkpoint("k")
                assert found is None or (found.state[0] == found.episode).all()
                assert found is None or found.curves["error"].shape == (2, found.episode)
        return "ended"

    assert at_once(3, act) == ["ended"] * 3
    assert sorted(p.name for p in (store.folder / "k").iterdir()) == [
        "checkpoint.npz",
        "previous.npz",
    ]
