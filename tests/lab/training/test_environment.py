"""A checkpoint of other code, versions or machine is resumed with a warning that names both."""

import numpy as np
import pytest

from tpo.lab import studies
from tpo.lab.execution.runner import Request, plan, run, run_cell
from tpo.lab.training import Pace
from tpo.lab.training import run as train
from tpo.lab.training.environment import device, environment, note_changes, origin
from tpo.storage.store import Store

HERE = {"commit": "abc", "jax": "0.9", "device": "2 CPU cores"}
REQUEST = Request(studies.get_study("tabular_single"), "smoke", methods=("tpo",))


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (HERE, ""),
        ({}, ""),  # of an older store
        ({**HERE, "commit": ""}, ""),  # of an installed wheel
        ({**HERE, "numpy": "2"}, ""),
        ({**HERE, "jax": "0.8"}, "(jax 0.8, now 0.9): "),
        (
            {**HERE, "commit": "abd", "device": "NVIDIA H200"},
            "(commit abd, now abc; device NVIDIA H200, now 2 CPU cores): ",
        ),
    ],
)
def test_what_differs_is_named(before, said, capsys):
    note_changes("TPO", before, HERE)
    errors = capsys.readouterr().err
    assert errors.startswith("TPO resumes a checkpoint of another environment " if said else "")
    assert said in errors
    assert len(errors.splitlines()) == bool(said)


def test_an_origin_says_code_versions_and_machine():
    found = origin(environment(), device())
    assert {"commit", "python", "numpy", "jax", "jaxlib", "platform", "device"} <= found.keys()
    assert "CPU" in found["device"]


def stop(progress):
    if progress.episode == 2:
        raise KeyboardInterrupt


@pytest.mark.parametrize("resume", ["cell", "study"])
def test_a_resumed_run_warns_and_goes_on(resume, tmp_path, capsys):
    ((planned,), store) = plan(REQUEST), Store(tmp_path / "s")
    with pytest.raises(KeyboardInterrupt):
        run_cell(planned.cell, store, stop, Pace(chunk=1))
    saved = store.checkpoint(planned.key)
    assert saved.origin == origin(environment(), device())
    store.save(planned.key, saved._replace(origin={**saved.origin, "jax": "0.1"}))
    if resume == "cell":
        run_cell(planned.cell, store)
    else:
        run(REQUEST, store.folder)
    assert "jax 0.1, now " in capsys.readouterr().err
    expected = train(planned.cell)
    for name, found in store.curves(planned.key).items():
        np.testing.assert_array_equal(found, expected[name])


def test_a_resumed_run_of_the_same_environment_says_nothing(tmp_path, capsys):
    ((planned,), store) = plan(REQUEST), Store(tmp_path / "s")
    with pytest.raises(KeyboardInterrupt):
        run_cell(planned.cell, store, stop, Pace(chunk=1))
    run(REQUEST, store.folder)
    assert capsys.readouterr().err == ""
