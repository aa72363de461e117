"""`--sweep`: one more axis of a study or of a run of one's own."""

import pytest

from tpo.cli import parser
from tpo.cli.run_study import requests_of
from tpo.declarations.study import Study
from tpo.lab import studies
from tpo.lab.studies import sweeps
from tpo.lab.studies.builders import BUILDERS
from tpo.lab.studies.own_runs import OwnRun


def request(*words):
    (found,) = requests_of(parser().parse_args(["run", *words]))
    return found


def test_a_swept_study_has_each_value_at_every_point_of_its_grid():
    words = ["terminal", "--scale", "smoke", "--methods", "tpo,dg"]
    found = request(*words, "--sweep", "learning_rate=1e-4,1e-3", "--sweep", "group_size=4")
    usual = request(*words)
    assert len(found.jobs) == 2 * len(usual.jobs)
    rates = [(job.coords["learning_rate"], job.cell.optimiser.learning_rate) for job in found.jobs]
    matched = [rate * (2 if j.method == "dg" and j.coords["matching"] == "interaction" else 1)
               for (rate, _), j in zip(rates, found.jobs, strict=True)]  # fmt: skip
    assert [rate for _, rate in rates] == pytest.approx(matched)  # sqrt(K) = 2
    sizes = {j.cell.method.rollout.group_size for j in found.jobs if j.method == "tpo"}
    assert (sizes, found.jobs[0].coords["K"]) == ({4}, 4)
    assert found.study.name == "terminal-by-learning_rate-K"
    assert found.command.endswith("--sweep learning_rate=1e-4,1e-3 --sweep group_size=4")
    assert (found.study.published, found.study.sweep) == ((), "learning_rate")
    assert Study.from_json(found.study.to_json()).grid == found.study.grid


def test_a_value_at_the_studys_own_setting_is_the_studys_own_run():
    usual = request("masking", "--scale", "smoke", "--methods", "tpo")
    rate = usual.jobs[0].cell.optimiser.learning_rate
    swept = request("masking", "--scale", "smoke", "--methods", "tpo", "--sweep", f"learning_rate={rate}")  # fmt: skip
    assert [job.key for job in swept.jobs] == [job.key for job in usual.jobs]


def test_the_ranking_of_objectives_is_a_study_too():
    words = ["compare", "--scale", "smoke", "--methods", "tpo:eta=2,dapo", "--sweep", "batch=4,8"]
    args = parser().parse_args([*words, "--workers", "2", "--resume"])
    (found,) = requests_of(args)
    assert [job.cell.budget.batch for job in found.jobs] == [4, 4, 8, 8]
    assert found.command.startswith("tpo run compare --scale smoke --methods tpo:eta=2,dapo")


def test_an_axis_that_the_study_has_gets_these_values():
    found = request("group_size", "--scale", "smoke", "--methods", "tpo", "--sweep", "K=2,3")
    assert [job.coords for job in found.jobs] == [{"K": 2}, {"K": 3}]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["terminal", "--sweep", "rate=1"], "'rate' is unknown"),
        (["terminal", "--sweep", "rate=1"], "expected one of learning_rate, batch, episodes, group_size"),
        (["terminal", "--sweep", "batch=1.5"], "batch is '1.5', expected a whole number from 1"),
        (["terminal", "--sweep", "learning_rat=1"], "Did you mean 'learning_rate'?"),
        (["talk", "--sweep", "batch=1"], "it trains nothing"),
        (["all", "--sweep", "batch=1"], "are for one study"),
    ],
)  # fmt: skip
def test_a_wrong_sweep_names_the_valid_ones(words, message):
    with pytest.raises(ValueError) as error:
        request(*words)
    assert message in str(error.value)


def test_every_kind_of_run_says_what_can_be_swept():
    assert set(sweeps.FIELDS) == set(BUILDERS)
    for name in studies.list_studies():
        study = studies.get_study(name)
        scale = study.scale("smoke")
        settings = scale.settings_at(study, study.coordinates(scale)[0])
        optional = {"epochs", "eta", "D"}  # settings that a study need not have
        fields = {setting for setting, _ in sweeps.FIELDS[study.build].values()}
        assert fields - optional <= set(settings), name


def test_options_of_ones_own_runs_are_checked_by_themselves():
    with pytest.raises(ValueError, match="batch is 0, expected a whole number from 1"):
        OwnRun(batch=0)
    assert OwnRun(batch=4, epochs=2).flags() == ["--batch", "4", "--epochs", "2"]
