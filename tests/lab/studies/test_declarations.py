"""Every study is declared in full: the names, the paper's size, and a home for each published number."""

import pytest

from tpo.cli.run_study import pairs
from tpo.lab import studies
from tpo.lab.critics import Critic
from tpo.lab.execution.runner import Request, plan
from tpo.lab.studies import cost
from tpo.lab.studies.method_specs import (
    bandit_row,
    fitting_objectives,
    sequence_row,
    unfitting_reasons,
)
from tpo.lab.studies.own_runs import OwnRun
from tpo.objectives.method_syntax import label, parse

NAMES = [
    "tabular_single", "tabular_multi", "mnist", "mnist_mechanism", "vocab", "variations", "terminal",
    "ablations", "gradient_norm", "informative_groups", "group_size", "masking", "multi_epoch", "epochs",
    "temperature", "dg_epochs", "staleness", "talk",
]  # fmt: skip


def test_every_figure_and_table_is_a_study():
    assert studies.list_studies(extra=False) == NAMES


@pytest.mark.parametrize(
    ("name", "seeds", "episodes", "runs"),
    [
        ("tabular_single", 100, 150, 4), ("tabular_multi", 100, 1000, 5), ("mnist", 20, 10_000, 6),
        ("vocab", 20, 1000, 4 * 4), ("variations", 10, 1000, 8 * 2 * 4), ("terminal", 20, 2000, 4 * 2 * 5),
        ("ablations", 20, 2000, 3 * 5), ("gradient_norm", 10, 2000, 6), ("group_size", 30, 2000, 5 * 2),
        ("masking", 30, 2000, 3), ("epochs", 30, 2000, 5 * 2), ("temperature", 10, 1000, 5),
        ("staleness", 10, 10_000, 8 * 5),
    ],
)  # fmt: skip
def test_full_is_the_papers_size(name, seeds, episodes, runs):
    scale = studies.get_study(name).scale("full")
    assert (scale.seeds, scale.episodes) == (seeds, episodes)
    assert len(plan(Request(studies.get_study(name), "full"))) == runs


def test_every_study_asks_one_question_of_its_own():
    asked = [studies.get_study(name).question for name in studies.list_studies()]
    assert all(one.endswith("?") and one.count("?") == 1 for one in asked)
    assert len(set(asked)) == len(asked)


def test_the_published_setting_reaches_the_cell():
    jobs = plan(
        Request(studies.get_study("terminal"), "full", only={"H": "9", "matching": "interaction"})
    )
    by_label = {planned.label: planned.cell for planned in jobs}
    ppo, tpo = by_label["PPO"], by_label["TPO"]
    assert (ppo.budget.batch, tpo.budget.batch) == (800, 100)
    assert ppo.optimiser.learning_rate == pytest.approx(1e-3 * 8**0.5)
    assert (tpo.task.horizon, tpo.method.epochs, tpo.method.rollout.group_size) == (9, 4, 8)
    assert by_label["DG"].method.epochs == 1


def test_an_axis_overrides_the_setting():
    jobs = plan(Request(studies.get_study("dg_epochs"), "full"))
    found = {(p.coords["task"], p.coords["epochs"]): p.cell for p in jobs}
    terminal, dense = found["terminal reverse_copy", 4], found["bag flip", 1]
    assert (terminal.task.reward, terminal.task.horizon, terminal.method.epochs) == (
        "terminal",
        7,
        4,
    )
    assert (terminal.budget.seeds, terminal.budget.episodes) == (20, 2000)
    assert (dense.task.target, dense.budget.seeds, dense.budget.episodes) == ("flip", 10, 1000)


def test_the_three_studies_of_six_methods_share_their_runs():
    keys = [
        [planned.key for planned in plan(Request(studies.get_study(name), "full"))]
        for name in ("gradient_norm", "informative_groups", "multi_epoch")
    ]
    assert keys[0] == keys[1] == keys[2]


def test_every_published_number_has_a_run_to_compare_with():
    for number in studies.published_numbers():
        if number.study == "language_models":  # `tpo train` runs those
            continue
        study = studies.get_study(number.study)
        if study.view == "talk":
            continue
        places = study.coordinates(study.scale("full"))
        fits = [c for c in places if number.fits(study.name, c, number.method)]
        assert len(fits) == 1, number
        assert number.method in study.methods, number
        assert number.source, number


def test_claims_are_about_declared_methods_and_axes():
    for name in studies.list_studies():
        study = studies.get_study(name)
        for claim in study.claims:
            assert {claim.method, *claim.than} <= set(study.methods), claim
            for key, value in {**claim.where, **claim.versus}.items():
                assert value in study.grid[key], claim


def test_every_objective_is_compared_or_excluded_with_a_reason():
    import tpo

    jobs = plan(Request(studies.get_study("compare"), "full"))
    assert [planned.method for planned in jobs] == fitting_objectives()
    assert set(fitting_objectives()) | set(unfitting_reasons()) == set(tpo.list_objectives())
    assert {"a2c", "vapo"} <= set(fitting_objectives())
    assert len(fitting_objectives()) > 25


def test_remax_takes_a_greedy_decode_as_its_baseline():
    assert sequence_row("remax").baseline == bandit_row("remax").baseline == "greedy"
    with pytest.raises(ValueError, match="method is 'remax_token'"):
        sequence_row("remax_token")


def test_a_method_with_options():
    assert parse("tpo:epochs=1:eta=0.5") == ("tpo", {"epochs": 1, "eta": 0.5})
    assert label("tpo:epochs=1") == "TPO, epochs 1"
    (planned,) = plan(
        Request(studies.get_study("masking"), "smoke", methods=("tpo:epochs=3:eta=0.5",))
    )
    assert planned.cell.method.epochs == 3
    assert planned.cell.method.build().eta == 0.5


def test_a_method_with_its_optimiser():
    spec = "tpo:optimiser=adam:epochs=3"
    (planned,) = plan(Request(studies.get_study("masking"), "smoke", methods=(spec,)))
    assert planned.cell.optimiser.name == "adam"
    assert planned.cell.method.epochs == 3
    with pytest.raises(ValueError, match="optimiser is 'lion', expected one of 'muon'"):
        plan(Request(studies.get_study("masking"), "smoke", methods=("tpo:optimiser=lion",)))


def test_a_method_with_options_of_its_critic():
    def planned(study, spec):
        (found,) = plan(Request(studies.get_study(study), "smoke", methods=(spec,)))
        return found.cell

    own = "ppo:advantage=gae:critic_returns=n_step:critic_n=3:critic_learning_rate=0.01"
    job = planned("masking", own)
    assert job.critic == Critic("n_step", n=3, learning_rate=0.01)
    assert job.method.build().advantage == "gae"
    assert planned("masking", "vapo").resolved_critic == Critic("monte_carlo", pretrain=50)
    assert planned("masking", "vapo:critic_pretrain=0").critic == Critic("monte_carlo")
    one_action = planned("mnist", "a2c:gamma=0.9:critic_epochs=2")
    assert one_action.critic == Critic("lambda", lam=1.0, gamma=0.9, epochs=2)
    assert one_action.method.rollout.kind == "single"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("a2c:critic_epochs=0", "critic_epochs is 0, expected a whole number"),
        ("a2c:critic_return=lambda", "no option 'critic_return'. Did you mean 'critic_returns'"),
        ("a2c:critic_returns=td", "critic_returns is 'td', expected one of 'lambda'"),
        ("tpo:critic_epochs=2", "critic_epochs is of a critic, and it needs none"),
        ("a2c_token", "which values the states of whole episodes: leave _token out"),
    ],
)
def test_wrong_options_of_a_critic_are_named(spec, message):
    with pytest.raises((ValueError, TypeError), match=message):
        plan(Request(studies.get_study("masking"), "smoke", methods=(spec,)))


def test_own_runs_with_a_critic_draw_what_it_explains():
    def drawn(*methods):
        study = OwnRun(horizon=3, episodes=2).study(methods)
        return [measure.key for measure in study.measures]

    assert drawn("ppo", "a2c") == ["error", "explained_variance"]
    assert drawn("ppo", "tpo") == ["error"]


def test_with_muons_own_steps_the_study_of_fading_has_the_papers_runs():
    paper, own = (
        plan(Request(studies.get_study(name), "full", methods=("tpo", "grpo"), only=only))
        for name, only in (("terminal", {"matching": "prompt"}), ("fading", {}))
    )
    assert {p.key for p in own} == {p.key for p in paper}


def test_any_objective_can_take_its_group_at_every_prefix():
    (planned,) = plan(Request(studies.get_study("vocab"), "smoke", methods=("lpo_token",)))
    assert planned.cell.method.objective == "lpo"
    assert planned.cell.method.rollout.kind == "token"


def test_single_sample_objectives_get_one_rollout_and_groups_get_k():
    request = Request(studies.get_study("masking"), "full", methods=("mdpo", "gspo", "rloo"))
    kinds = [(p.cell.method.rollout.kind, p.cell.method.epochs) for p in plan(request)]
    assert kinds == [("single", 4), ("sequence", 4), ("sequence", 1)]


def test_only_may_name_values_that_a_scale_leaves_out():
    jobs = plan(Request(studies.get_study("terminal"), "quick", only={"H": "7,8"}))
    assert {planned.coords["H"] for planned in jobs} == {7, 8}


def test_only_takes_several_values_in_either_form_and_refuses_unknown_ones():
    assert pairs(["H=7,8", "V=2"]) == pairs(["H=7", "V=2", "H=8"]) == {"H": "7,8", "V": "2"}
    with pytest.raises(ValueError, match=r"--only H=7,99: H is '99', expected some of 5, 7, 8"):
        plan(Request(studies.get_study("terminal"), "quick", only={"H": "7,99"}))


def test_a_study_of_your_own_cannot_take_a_name_that_is_taken():
    from dataclasses import replace

    with pytest.raises(ValueError, match="'terminal' exists already"):
        studies.register(replace(studies.get_study("terminal"), title="mine"))


def test_twice_the_episodes_cost_twice_the_training():
    import os
    from dataclasses import replace

    (planned,) = plan(Request(studies.get_study("masking"), "quick", methods=("tpo",)))
    cell = planned.cell
    once = cost.job_seconds(cell) - cost.COMPILE["transformer"]
    double = replace(cell, budget=replace(cell.budget, episodes=2 * cell.budget.episodes))
    assert cost.job_seconds(double) - cost.COMPILE["transformer"] == pytest.approx(2 * once)
    seeds = -(-cell.budget.seeds // os.cpu_count())
    assert once == pytest.approx(seeds * 100 * cost.episode_seconds(cell))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (80, "80 s"), (150, "2.5 min"), (7200, "2 h"), (3e5, "3.47 d")],
)
def test_durations_in_words(seconds, words):
    assert cost.duration(seconds) == words


def test_a_corrected_method_measures_from_the_learner_where_the_actor_lags():
    study = studies.get_study("staleness")

    def planned(delay):
        request = Request(study, "full", methods=("ppo:correct=tis",), only={"D": str(delay)})
        return plan(request)

    assert {one.cell.staleness.anchor for one in planned(30)} == {"learner"}
    with pytest.raises(ValueError, match="holds correct, which compares"):
        planned(0)
