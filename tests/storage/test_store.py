"""Files written whole or not at all; runs killed at any point end with the same numbers."""

import errno
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tpo.storage import store as store_module
from tpo.storage.store import VERSION, Snapshot, Store

SNAPSHOT = Snapshot(7, {"error": np.arange(14.0).reshape(2, 7)}, [np.ones(3), np.zeros((), int)])


def test_what_is_saved_is_read_back(tmp_path):
    store = Store(tmp_path / "out")
    store.begin("abc", {"cell": 1})
    store.save("abc", SNAPSHOT)
    found = Store(tmp_path / "out").checkpoint("abc")
    assert found.episode == 7
    np.testing.assert_array_equal(found.curves["error"], SNAPSHOT.curves["error"])
    assert [x.shape for x in found.state] == [(3,), ()]
    store.finish("abc", SNAPSHOT.curves)
    assert store.checkpoint("abc") is None
    np.testing.assert_array_equal(store.curves("abc")["error"], SNAPSHOT.curves["error"])
    assert store.keys() == ["abc"]
    assert store.description("abc") == {"cell": 1}
    assert store.curves("other") is None


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_loses_nothing_and_says_so(tmp_path, monkeypatch, step):
    store = Store(tmp_path / "out")
    store.begin("abc", {})
    store.save("abc", SNAPSHOT)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store_module.os, step, full)
    with pytest.raises(OSError, match="the disk is full.*run the same command again"):
        store.save("abc", SNAPSHOT._replace(episode=8))
    assert store.checkpoint("abc").episode == 7
    assert sorted(p.name for p in (tmp_path / "out" / "abc").iterdir()) == [
        "cell.json",
        "checkpoint.npz",
    ]


def test_another_version_is_left_alone(tmp_path):
    folder = tmp_path / "out"
    Store(folder)
    (folder / "store.json").write_text(json.dumps({"version": VERSION + 1}))
    with pytest.raises(ValueError, match=f"version {VERSION + 1}.*Nothing was changed"):
        Store(folder)
    assert [p.name for p in folder.iterdir()] == ["store.json"]


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(ValueError, match="not a store of results"):
        Store(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_broken_file_that_cannot_be_renamed_is_named_and_left_out(tmp_path, monkeypatch, capsys):
    store = Store(tmp_path / "out")
    store.begin("abc", {})
    path = tmp_path / "out" / "abc" / "curves.npz"
    path.write_text("PK")

    def refused(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(store_module.os, "rename", refused)
    assert store.curves("abc") is None
    assert capsys.readouterr().err == (
        f"{path} is broken (File is not a zip file): it could not be renamed (Read-only file "
        "system), and tpo run computes it again\n"
    )
    assert path.read_text() == "PK"


def test_a_file_that_cannot_be_read_is_no_broken_file(tmp_path):
    store = Store(tmp_path / "out")
    (tmp_path / "out" / "abc" / "curves.npz").mkdir(parents=True)
    with pytest.raises(IsADirectoryError, match="curves.npz"):
        store.curves("abc")


COMMAND = """
import sys
from tpo.cli import main
sys.exit(main(sys.argv[1:]))
"""
FLAGS = ["run", "--task", "digits", "--methods", "dg", "--batch", "16", "--seeds", "2"]
FLAGS += ["--episodes", "3000", "--chunk", "50", "--save-every", "0"]


def start(out, cache):
    environment = dict(os.environ, JAX_COMPILATION_CACHE_DIR=str(cache), JAX_PLATFORMS="cpu")
    environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *FLAGS, "--out", str(out)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_checkpoint(process, out, after=-1):
    """Until a checkpoint later than `after` is there; how far it is."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        for key in Store(out).keys() if (out / "store.json").exists() else []:
            found = Store(out).checkpoint(key)
            if found is not None and found.episode > after:
                return found.episode
        time.sleep(0.005)
    raise AssertionError(f"no checkpoint: {process.communicate()}")


def finished(out):
    store = Store(out)
    return store.curves(store.keys()[0])


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Compiled programs of these runs alone: a kill may leave half of one."""
    return tmp_path_factory.mktemp("cache")


def test_a_killed_run_ends_with_the_same_numbers(cache, tmp_path):
    whole = start(tmp_path / "whole", cache)
    assert whole.wait(timeout=240) == 0, whole.communicate()
    rng = np.random.default_rng()
    reached = -1
    for _ in range(3):
        process = start(tmp_path / "killed", cache)
        reached = wait_for_checkpoint(process, tmp_path / "killed", reached)
        time.sleep(float(rng.uniform(0, 0.05)))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    last = start(tmp_path / "killed", cache)
    assert last.wait(timeout=240) == 0, last.communicate()
    expected, found = finished(tmp_path / "whole"), finished(tmp_path / "killed")
    assert expected["error"].shape == (2, 3000)
    for name, curve in expected.items():
        np.testing.assert_array_equal(found[name], curve, err_msg=name)
    for process in (whole, last):
        process.communicate()


def test_ctrl_c_leaves_a_usable_store_and_says_how_to_resume(cache, tmp_path):
    process = start(tmp_path / "out", cache)
    wait_for_checkpoint(process, tmp_path / "out")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Run the same command again to resume" in errors
    store = Store(tmp_path / "out")
    assert 0 < store.checkpoint(store.keys()[0]).episode < 3000
