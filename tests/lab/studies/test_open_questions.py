"""The studies of open questions: shrunk, and both sides with equal settings."""

import pytest

from tpo.lab import studies
from tpo.lab.execution.runner import Request, plan, run
from tpo.lab.rollouts.faults import Faults
from tpo.lab.training import Optimiser
from tpo.reports.summary import summarise

NAMES = ["failed_groups", "sigma_floor", "friction", "diversity", "projections", "step_robustness"]


def planned(name, **only):
    return plan(Request(studies.get_study(name), "full", only=only or None))


@pytest.mark.parametrize("name", NAMES)
def test_a_study_runs_from_declaration_to_verdicts(name, store_dir):
    run(Request(studies.get_study(name), "smoke"), store_dir)
    (found,) = (one for one in summarise(store_dir) if one["name"] == name)
    assert found["progress"] == {"cells_done": 1, "cells": 1}
    assert len(found["verdicts"]) == len(studies.get_study(name).claims)
    errors = [row["mean"] for row in found["table"]["rows"]]
    assert all(0 < error <= 100 for error in errors)


@pytest.mark.parametrize(
    ("name", "cells"),
    [("failed_groups", 54), ("sigma_floor", 96), ("friction", 192), ("diversity", 48), ("projections", 60),
     ("step_robustness", 330)],
)  # fmt: skip
def test_the_size_is_the_planned_one_and_no_run_is_in_two_places(name, cells):
    jobs = planned(name)
    assert len(jobs) == cells
    repeated = (
        10 if name == "step_robustness" else 0
    )  # four epochs are the published ones of five methods
    assert cells - repeated <= len({job.key for job in jobs}) <= cells


@pytest.mark.parametrize("name", NAMES)
def test_every_method_has_the_same_settings_and_as_many_samples(name):
    sides = {}
    for job in planned(name):
        cell, coords = job.cell, repr(job.coords)
        rollout = cell.method.rollout
        samples = cell.budget.batch * (rollout.group_size if rollout.kind == "sequence" else 1)
        setting = (cell.task, cell.optimiser, cell.faults, cell.budget.episodes, cell.budget.seeds)
        sides.setdefault(coords, set()).add((setting, 0 if name == "step_robustness" else samples))
    assert {len(found) for found in sides.values()} == {1}


def test_the_axes_reach_the_cells():
    (drop,) = {job.cell.method.rollout.failed for job in planned("failed_groups", failed="drop")}
    assert drop == "drop"
    floors = {
        job.cell.method.build().sigma_floor for job in planned("sigma_floor", sigma_floor="0.01")
    }
    assert floors == {0.01}
    (cell, *_) = [job.cell for job in planned("friction", friction="together 0.1")]
    assert cell.faults == Faults(bugs=0.1, random=0.1)
    assert (cell.task.corrupted, cell.policy.rare) == (0.1, 0.1)
    (cell, *_) = [job.cell for job in planned("friction", friction="rare 0.3")]
    assert (cell.faults, cell.task.corrupted, cell.policy.rare) == (Faults(), 0.0, 0.3)
    (cell, *_) = [job.cell for job in planned("diversity", temperature="0.5")]
    assert cell.faults == Faults(temperature=0.5)
    budgets = {
        job.cell.method.build().kl_budget for job in planned("projections", target="kl_budget=0.5")
    }
    assert budgets == {0.5}
    (cell, *_) = [job.cell for job in planned("step_robustness", step="adam 3e-4 clipped")]
    assert cell.optimiser == Optimiser("adam", 3e-4, 1.0)
    assert "max_grad_norm" in cell.to_json()["optimiser"]
    epochs = {
        job.cell.method.epochs for job in planned("step_robustness", step="muon 1e-3 16 epochs")
    }
    assert epochs == {16}
