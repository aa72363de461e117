"""The runner resumes, does not repeat finished jobs, and keeps the results of other runs."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tpo.declarations import manifest
from tpo.declarations.study import Scale
from tpo.lab import studies
from tpo.lab.execution.runner import Request, plan, run
from tpo.reports.summary import summarise
from tpo.storage.store import Store

SMALL = {"A": 4, "B": 5}


def request(episodes=30, **options):
    study = studies.get_study("tabular_single")
    tiny = replace(study, scales={"smoke": Scale(2, episodes, SMALL), "quick": Scale(2, 3, SMALL)})
    return Request(tiny, "smoke", **options)


class StopError(KeyboardInterrupt):
    pass


def test_an_interrupted_study_resumes_and_ends_with_the_same_numbers(tmp_path):
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    jobs = run(request(), whole)

    def stop(planned, state):
        if planned.method == "grpo" and state is not None and state.curves:
            raise StopError

    with pytest.raises(KeyboardInterrupt):
        run(request(), halves, stop)
    (half,) = summarise(halves)
    assert half["progress"] == {"cells_done": 2, "cells": 4}
    assert [s["done"] for s in half["panels"][0]["series"]] == [True, True, False]
    run(request(), halves)
    for planned in jobs:
        a, b = (Store(folder).curves(planned.key) for folder in (whole, halves))
        assert all(np.array_equal(a[name], b[name], equal_nan=True) for name in a)


def test_what_is_finished_is_not_run_again(tmp_path):
    run(request(methods=("pg", "tpo")), tmp_path)
    trained = []
    run(
        request(),
        tmp_path,
        lambda planned, state: trained.append(planned.method) if state else None,
    )
    assert set(trained) == {"dg", "grpo"}


def test_parts_of_a_grid_run_one_after_the_other_make_one_study(tmp_path):
    run(request(methods=("pg",)), tmp_path)
    run(request(methods=("tpo",)), tmp_path)
    found = manifest.read(tmp_path, "tabular_single")
    assert [part.method for part in found.parts] == ["pg", "tpo"]
    assert found.command.endswith("--methods tpo")


def test_another_number_of_seeds_replaces_the_first(tmp_path):
    run(request(methods=("pg",)), tmp_path)
    run(request(methods=("pg",), seeds=3), tmp_path)
    (found,) = summarise(tmp_path)
    assert [s["n"] for s in found["panels"][0]["series"]] == [3]
    assert found["settings"]["seeds"] == 3


def test_a_folder_keeps_one_scale_of_a_study(tmp_path):
    run(request(methods=("pg",)), tmp_path)
    with pytest.raises(
        ValueError, match=r"holds tabular_single at scale smoke: give another --out"
    ):
        run(replace(request(), scale="quick"), tmp_path)


def test_the_cost_adds_up(tmp_path):
    (planned,) = run(request(methods=("pg",)), tmp_path)
    path = tmp_path / planned.key / "cost.json"
    path.write_text(json.dumps({"seconds": 12.5}))
    (found,) = summarise(tmp_path)
    assert found["cost"]["seconds"] == 12.5


def test_provenance_says_what_is_needed_to_run_it_again(tmp_path):
    run(request(methods=("pg",)), tmp_path)
    (found,) = summarise(tmp_path)
    assert found["provenance"]["seeds"] == "0..1"
    assert {"python", "numpy", "jax"} <= set(found["provenance"]["versions"])
    assert "CPU" in found["provenance"]["device"]


def test_an_empty_folder_says_what_to_run(tmp_path):
    with pytest.raises(ValueError, match="holds no results of a study: run one first"):
        summarise(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": {"Q": "1"}}, "has no axis 'Q', expected one of H: 3; matching: prompt"),
        ({"only": {"H": "99"}}, "H is '99', expected some of 3, 7, 8, 9, 10"),
        ({"seeds": 0}, "--seeds is 0, expected at least 1"),
        ({"scale": "huge"}, "scale is 'huge', expected one of smoke, quick, full"),
        ({"methods": ("tpoo",)}, "Expected one of tpo, "),
        ({"methods": ("tpo:eta",)}, "holds 'eta', expected option=value"),
        ({"methods": ("tpo_token",)}, "this task's reward waits for the end"),
    ],
)
def test_a_wrong_request_names_the_valid_ones_before_anything_runs(options, message):
    with pytest.raises(ValueError) as error:
        plan(Request(studies.get_study("terminal"), **{"scale": "smoke", **options}))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("name", "method", "message"),
    [
        ("mnist", "grpo_masked", "does not fit a task of one action, expected one of ce, pg, dg"),
        ("tabular_multi", "ppo", "expected one of 'ce', 'pg', 'dg', 'grpo', 'tpo'"),
        ("mnist_mechanism", "ppo", "expected one of tpo, pg, dg, group_pg"),
        ("talk", "ppo", "come for all methods at once"),
    ],
)
def test_a_method_that_does_not_fit_says_so(name, method, message):
    with pytest.raises(ValueError) as error:
        plan(Request(studies.get_study(name), "smoke", methods=(method,)))
    assert message in str(error.value)


def test_target_objectives_and_given_baselines_fit_a_bandit():
    jobs = plan(Request(studies.get_study("mnist"), "smoke", methods=("tpo_no_anchor", "mdpo")))
    assert [p.cell.method.rollout.kind for p in jobs] == ["vector", "single"]
