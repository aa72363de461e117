"""Every study from its declaration to its summary, shrunk."""

import json

import numpy as np
import pytest

from tpo.lab import studies
from tpo.lab.execution.runner import Request, plan, run
from tpo.reports.summary import summarise
from tpo.storage.store import Store

CURVES = [
    name for name in studies.list_studies(extra=False) if studies.get_study(name).view == "curves"
]


def summary(store_dir, name):
    run(Request(studies.get_study(name), "smoke"), store_dir)
    return next(found for found in summarise(store_dir) if found["name"] == name)


@pytest.mark.parametrize("name", CURVES)
def test_a_study_runs_from_declaration_to_summary(name, store_dir):
    study = studies.get_study(name)
    found = summary(store_dir, name)
    jobs = plan(Request(study, "smoke"))
    assert found["progress"] == {"cells_done": len(jobs), "cells": len(jobs)}
    assert found["command"] == f"tpo run {name} --scale smoke"
    drawn = [s for panel in found["panels"] if "kind" not in panel for s in panel["series"]]
    assert len(drawn) == len(jobs) * len(study.measures)
    assert {s["label"] for s in drawn} >= {p.label for p in jobs} or study.series
    assert len(found["verdicts"]) == len(study.claims)
    assert {v["status"] for v in found["verdicts"]} == {"undecided"}
    assert len(json.loads(json.dumps(found, allow_nan=False))["table"]["rows"]) >= len(jobs)


@pytest.mark.parametrize("name", ["terminal", "mnist", "tabular_multi"])
def test_numbers_of_the_summary_are_those_of_the_store(name, store_dir):
    found = summary(store_dir, name)
    measure = studies.get_study(name).measures[0].key
    store = Store(store_dir)
    jobs = plan(Request(studies.get_study(name), "smoke"))
    for planned in jobs:
        y = store.curves(planned.key)[measure]
        y = y[:, ~np.isnan(y).all(0)]
        row = next(r for r in found["table"]["rows"] if r["method"] == planned.label)
        series = next(s for s in found["panels"][0]["series"] if s["label"] == planned.label)
        assert row["mean"] == pytest.approx(100 * y[:, -1].mean(), rel=1e-4)
        assert row["median"] == pytest.approx(100 * np.median(y[:, -1]), rel=1e-4)
        assert row["n"] == series["n"] == series["planned"] == 2
        assert series["mean"] == pytest.approx(y.mean(0), rel=1e-4)
        assert np.array(series["seeds"]) == pytest.approx(y, rel=1e-4)


def test_the_published_number_is_in_its_row(store_dir):
    rows = summary(store_dir, "mnist")["table"]["rows"]
    tpo = {row["metric"]: row["published"] for row in rows if row["method"] == "TPO"}
    assert tpo == {"final error %": "2.9", "steps to 5%": "1600"}
    assert next(row for row in rows if row["method"] == "CE")["published"] is None


def test_a_sweep_is_drawn_against_its_axis(store_dir):
    panels = summary(store_dir, "epochs")["panels"]
    bars = panels[-1]
    assert bars["kind"] == "bars"
    assert [series["x"] for series in bars["series"]] == [["1", "4"], ["1", "4"]]


def test_axes_drawn_as_series_share_a_panel(store_dir):
    found = summary(store_dir, "dg_epochs")
    labels = [s["label"] for s in found["panels"][0]["series"]]
    assert labels == ["DG, epochs = 1", "DG, epochs = 4"]


def test_the_talks_numbers_are_the_published_ones(store_dir):
    found = summary(store_dir, "talk")
    assert [panel["kind"] for panel in found["panels"]] == ["bars", "bars", "bars", "simplex"]
    share = found["panels"][0]["series"][0]
    assert dict(zip(share["x"], share["y"], strict=True))["GRPO"] == pytest.approx(19.0)
    rows = found["table"]["rows"]
    assert len(rows) == sum(p.study == "talk" for p in studies.published_numbers())
    assert {row["agreement"] for row in rows} == {"agrees"}
    assert found["verdicts"] == []  # a number that agrees is not a claim


def test_the_mechanism_bins_the_misclassified(store_dir):
    found = summary(store_dir, "mnist_mechanism")
    (panel,) = found["panels"]
    assert [s["label"] for s in panel["series"]] == ["TPO", "DG", "PG", "Group PG"]
    assert panel["series"][0]["x"][-1] == "0.75 to 1"
    keys = [p.key for p in plan(Request(studies.get_study("mnist_mechanism"), "smoke"))]
    arrays = [Store(store_dir).curves(key) for key in keys]
    # each method on its own network, so the misclassified differ; PG and Group PG are their own surrogates
    assert not np.array_equal(arrays[0]["count"], arrays[1]["count"])
    assert all(a["count"].sum() > 100 for a in arrays)
    for own in arrays[2:]:
        assert np.nanmax(np.abs(own["surplus"])) < 1e-6
