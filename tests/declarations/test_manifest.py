"""The manifest of a study keeps the cells of every run, whenever they were added."""

import json
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpo.declarations import declared, manifest
from tpo.storage.store import Store


def asked(*methods, scale="smoke"):
    parts = tuple(manifest.PlannedCell(f"key-{m}", {"H": 3}, m, m.upper()) for m in methods)
    return manifest.Manifest("own", scale, 2, 5, "tpo run own", {"seeds": 2}, parts)


def methods_of(store):
    return [part.method for part in manifest.read(store.folder, "own").parts]


def test_runs_that_are_started_at_once_list_all_their_cells(tmp_path):
    for repetition in range(20):
        store = Store(tmp_path / str(repetition))
        names = [f"m{i}" for i in range(4)]
        threads = [threading.Thread(target=manifest.add, args=(store, asked(m))) for m in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(methods_of(store)) == names


@settings(max_examples=15, deadline=None)
@given(runs=st.lists(st.lists(st.sampled_from("abcd"), unique=True), min_size=1, max_size=5))
def test_each_cell_is_listed_once_whatever_the_order_of_runs(tmp_path_factory, runs):
    store = Store(tmp_path_factory.mktemp("manifests") / "s")
    for run in runs:
        manifest.add(store, asked(*run))
    found = methods_of(store)
    assert sorted(found) == sorted(set().union(*runs))
    assert found[len(found) - len(runs[-1]) :] == runs[-1]


def test_another_scale_is_refused_and_changes_nothing(tmp_path):
    store = Store(tmp_path / "s")
    manifest.add(store, asked("a"))
    with pytest.raises(ValueError, match="holds own at scale smoke: give another --out"):
        manifest.add(store, asked("b", scale="full"))
    assert methods_of(store) == ["a"]
    manifest.add(store, asked("c"))  # the lock is free again


@pytest.mark.parametrize(
    "content", [{}, {"parts": 5}, {"parts": [{}]}, {"parts": [], "colour": "red"}]
)
def test_a_manifest_of_another_form_is_named_and_kept(tmp_path, content):
    path = manifest.path_of(tmp_path, "own")
    path.parent.mkdir()
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="own.json is not a manifest that this tpo can read"):
        manifest.read(tmp_path, "own")
    assert json.loads(path.read_text()) == content


def test_a_declared_study_of_another_form_is_named():
    with pytest.raises(ValueError, match="studies/own.json declares a study that this tpo cannot"):
        declared(manifest.Manifest("own", "smoke", 1, 1, "", {}, (), study={"grid": {}}))
