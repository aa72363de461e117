"""Every file of a store, broken in four ways: it is named and set aside, and nothing else is lost."""

import contextlib
import io
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from tpo.cli import main
from tpo.lab import studies
from tpo.lab.execution.runner import Request, plan, run, run_cell, write_manifest
from tpo.lab.execution.shards import job_shards
from tpo.lab.training import Pace
from tpo.lab.training import run as train
from tpo.storage import npz
from tpo.storage.store import Store

DAMAGE = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "random": lambda content: np.random.default_rng(0).bytes(len(content)),
    "list": lambda content: b"[]",
}
METHODS = ("pg", "dg", "tpo")
REQUEST = Request(studies.get_study("tabular_single"), "smoke", methods=METHODS)
KEYS = {planned.method: planned.key for planned in plan(REQUEST)}
FILES = {
    "store.json": "a new one is written",
    "studies/tabular_single.json": "finished runs are kept: tpo run lists them again",
    "pg/cell.json": "the results of the run are kept",
    "pg/cost.json": "time is counted from 0 again",
    "pg/curves.npz": "tpo run computes it again",
    "dg/cell.json": "the results of the run are kept",
    "dg/cost.json": "time is counted from 0 again",
    "dg/checkpoint.npz": "the checkpoint before it is used",
    "dg/previous.npz": "",  # it is not read while the latest is intact
    "tpo/cell.json": "the results of the run are kept",
    "tpo/seeds/0+1/curves.npz": "tpo run computes it again",
    "tpo/seeds/1+1/checkpoint.npz": "the checkpoint before it is used",
}
"""Every file of the store below, and what the warning says happens without it."""


class StopError(KeyboardInterrupt):
    pass


def stop(progress):
    if progress.episode == 2:
        raise StopError


def begun(job, store):
    """The last checkpoint of a run that was stopped at its second episode, after one of its first."""
    with pytest.raises(StopError):
        run_cell(job, store, stop, Pace(chunk=1, save_every=0))
    return store.checkpoint(job.key)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The curves of the study, undisturbed."""
    folder = tmp_path_factory.mktemp("whole") / "s"
    run(REQUEST, folder)
    return {method: Store(folder).curves(key) for method, key in KEYS.items()}


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory):
    """A finished run, one with two checkpoints, and one whose first shard is finished."""
    folder = tmp_path_factory.mktemp("unfinished") / "s"
    run(Request(REQUEST.study, "smoke", methods=("pg",)), folder)
    store, jobs = Store(folder), {planned.method: planned for planned in plan(REQUEST)}
    begun(jobs["dg"].cell, store)
    store.add_cost(jobs["dg"].key, 1.0, {})
    store.begin(jobs["tpo"].key, {"cell": jobs["tpo"].cell.to_json()})
    first, second = job_shards(jobs["tpo"], store, 2)
    store.finish(first.where, train(first.cell))
    store.save(second.where, begun(second.cell, Store(folder.with_name("elsewhere"))))
    write_manifest(REQUEST, store, "CPU")
    return folder


def place(folder, file):
    method, _, rest = file.partition("/")
    return folder / KEYS[method] / rest if method in KEYS else folder / file


def call(*words):
    """The exit status and what a command writes to stderr."""
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        status = main([*map(str, words)])
    return status, errors.getvalue()


COMMANDS = {
    "report": ("report",),
    "run": ("run", "tabular_single", "--scale", "smoke", "--methods", ",".join(METHODS), "--out"),
}


def test_every_file_is_listed(unfinished):
    found = {path for path in unfinished.rglob("*") if path.is_file()}
    assert found == {place(unfinished, file) for file in FILES}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("file", FILES)
def test_a_broken_file_is_set_aside(file, kind, command, unfinished, whole, tmp_path):
    folder = shutil.copytree(unfinished, tmp_path / "s")
    path = place(folder, file)
    damaged = DAMAGE[kind](path.read_bytes())
    path.write_bytes(damaged)
    status, errors = call(*COMMANDS[command], folder, "--json")
    only = file.startswith("studies") and command == "report"  # there is no other study to show
    assert status == (2 if only else 0), errors
    lines = [line for line in errors.splitlines() if " is broken (" in line]
    if FILES[file]:
        assert [line.split(" is broken (")[0] for line in lines] == [str(path)]
        assert lines[0].endswith(f": it is now {path.name}.broken, and {FILES[file]}")
        if path.parent.exists():  # shards of a finished run are removed
            assert path.with_name(f"{path.name}.broken").read_bytes() == damaged
    else:
        assert lines == []
    if command == "run":
        for method, key in KEYS.items():
            found = Store(folder).curves(key)
            for name, expected in whole[method].items():
                np.testing.assert_array_equal(found[name], expected)


WRONG_ARRAYS = {
    "none": lambda arrays: {},
    "scalars": lambda arrays: dict.fromkeys(arrays, np.asarray(1.0)),
    "text": lambda arrays: {name: x.astype(str) for name, x in arrays.items()},
    "without episodes": lambda arrays: {
        name: x[..., :0] if x.ndim else x for name, x in arrays.items()
    },
    "twice the seeds": lambda arrays: {
        name: np.concatenate([x, x]) if x.ndim == 2 else x for name, x in arrays.items()
    },
    "unequal": lambda arrays: {
        name: x[:, :-1] if x.ndim == 2 and i else x for i, (name, x) in enumerate(arrays.items())
    },
    "a list as origin": lambda arrays: {**arrays, "origin": np.asarray("[1]")},
    "numbers as origin": lambda arrays: {**arrays, "origin": np.asarray('{"jax": 1}')},
}
"""What another program may have written in the place of arrays: the file is whole, and no run is like it."""


def rewritten(path, change):
    """Write changed arrays into an NPZ file; its new content."""
    path.write_bytes(npz.to_bytes(change(npz.from_bytes(path.read_bytes()))))
    return path.read_bytes()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", WRONG_ARRAYS)
def test_arrays_that_no_run_has_are_set_aside(kind, command, unfinished, whole, tmp_path):
    read = [file for file, without in FILES.items() if file.endswith(".npz") and without]
    assert len(read) == 4
    for i, file in enumerate(read):
        if "origin" in kind and "checkpoint" not in file:
            continue
        folder = shutil.copytree(unfinished, tmp_path / str(i))
        path = place(folder, file)
        written = rewritten(path, WRONG_ARRAYS[kind])
        status, errors = call(*COMMANDS[command], folder, "--json")
        assert status == 0, errors
        (line,) = [line for line in errors.splitlines() if " is broken (" in line]
        assert line.startswith(f"{path} is broken (")
        assert line.endswith(f": it is now {path.name}.broken, and {FILES[file]}")
        if path.parent.exists():  # shards of a finished run are removed
            assert path.with_name(f"{path.name}.broken").read_bytes() == written
        if command == "run":
            for method, key in KEYS.items():
                for name, expected in whole[method].items():
                    np.testing.assert_array_equal(Store(folder).curves(key)[name], expected)


def renamed(arrays):
    return {f"{name}x" if "distinct" in name else name: x for name, x in arrays.items()}


@pytest.mark.parametrize("command", COMMANDS)
def test_curves_of_other_names_are_refused(command, unfinished, tmp_path):
    for file, words in {
        "tpo/seeds/0+1/curves.npz": f"{KEYS['tpo']}/seeds: not every shard has the curves distinct, distinctx",
        "dg/checkpoint.npz": "do not both have the curves distinct, distinctx: remove the checkpoint",
    }.items():
        folder = shutil.copytree(unfinished, tmp_path / file[:2])
        rewritten(place(folder, file), renamed)
        status, errors = call(*COMMANDS[command], folder, "--json")
        if command == "report" and file.startswith("dg"):
            assert status == 0  # it shows the curves that it knows
            continue
        assert status == 2
        assert words in errors.splitlines()[-1]


def test_a_store_whose_mark_is_no_file_is_named(unfinished, tmp_path):
    folder = shutil.copytree(unfinished, tmp_path / "s")
    mark = folder / "store.json"
    mark.unlink()
    for make in (mark.mkdir, lambda: mark.symlink_to(mark.name)):
        make()
        for words in COMMANDS.values():
            status, errors = call(*words, folder)
            assert (status, len(errors.splitlines())) == (2, 1)
            assert errors.startswith("tpo: [Errno ")
            assert str(mark) in errors
        mark.rmdir() if mark.is_dir() else mark.unlink()


def test_arrays_of_another_computation_are_named(tmp_path):
    jobs = run(Request(studies.get_study("talk"), "smoke"), tmp_path / "s")
    path = tmp_path / "s" / jobs[0].key / "curves.npz"
    rewritten(path, lambda arrays: {f"{name}x": x for name, x in arrays.items()})
    status, errors = call("report", tmp_path / "s")
    (line,) = errors.splitlines()
    assert status == 2
    assert f"talk: the arrays in {jobs[0].key} are not of this study (KeyError: 'share_c" in line


def test_a_run_without_a_number_is_named(tmp_path):
    study = replace(REQUEST.study, name="own", claims=(studies.Claim("TPO is best", "tpo"),))
    jobs = run(Request(study, "smoke", methods=("pg", "tpo")), tmp_path / "s")
    path = tmp_path / "s" / jobs[1].key / "curves.npz"
    rewritten(path, lambda arrays: {name: x * np.nan for name, x in arrays.items()})
    status, errors = call("report", tmp_path / "s")
    (line,) = errors.splitlines()
    assert status == 2
    assert f"TPO has no numbers: the files in {jobs[1].key} hold only NaN" in line


WRONG_VALUES = (None, 1.5, "x", [], [1], {"a": 1}, True)
"""What a hand or another program may have written in the place of a value."""

VALID = [("study", None)]
"""A store of an earlier version: the study is known by its name."""


def changes(content):
    """The content with one value replaced, each in turn; not by one of the type that it has."""
    for name, value in content.items():
        for wrong in WRONG_VALUES:
            if not isinstance(wrong, type(value)) and (name, wrong) not in VALID:
                yield {**content, name: wrong}


def test_a_manifest_with_a_wrong_value_is_named(unfinished, tmp_path):
    folder = shutil.copytree(unfinished, tmp_path / "s")
    path = folder / "studies/tabular_single.json"
    whole = json.loads(path.read_text())
    first, *others = whole["parts"]
    wrong = [
        *changes(whole),
        *({**whole, "parts": [part, *others]} for part in changes(first)),
        *({**whole, "parts": [{**first, "coords": {"H": value}}]} for value in (None, [1], {})),
    ]
    assert len(wrong) > 60
    for content in wrong:
        path.write_text(json.dumps(content))
        status, errors = call("report", folder)
        assert status == 2, content
        (line,) = errors.splitlines()
        assert line.startswith(f"tpo: {path} is not a manifest that this tpo can read ("), content
        assert "remove the file and run the study again" in line


@pytest.mark.parametrize(
    "cost", [{"seconds": "x"}, {"seconds": float("nan")}, {"seconds": 1, "provenance": [1]}]
)
def test_a_cost_with_a_wrong_value_is_set_aside(cost, unfinished, tmp_path):
    folder = shutil.copytree(unfinished, tmp_path / "s")
    path = place(folder, "pg/cost.json")
    path.write_text(json.dumps(cost))
    status, errors = call("report", folder)
    assert status == 0, errors
    assert "it is now cost.json.broken, and time is counted from 0 again" in errors


def test_a_curve_that_no_run_has_is_named(tmp_path):
    for change in (
        {"measures": (studies.Measure("eror", "error"),)},
        {"claims": (studies.Claim("TPO is best", "tpo", metric="eror"),)},
    ):
        study = replace(REQUEST.study, name="own", **change)
        run(Request(study, "smoke", methods=("pg", "tpo")), tmp_path / "s")
        status, errors = call("report", tmp_path / "s")
        (line,) = errors.splitlines()
        assert status == 2
        assert "has no curve 'eror', expected one of" in line
        assert "expected_error" in line
        (tmp_path / "s/studies/own.json").unlink()
