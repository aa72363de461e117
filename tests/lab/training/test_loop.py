"""One loop, whose numbers depend on the cell alone: not on chunks, other cells, threads or interruptions."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.position_table import PositionTable
from tpo.lab.execution.runner import run_cell
from tpo.lab.policies import Transformer
from tpo.lab.rollouts import Actor, Rollout
from tpo.lab.tasks import Digits, Sequences
from tpo.lab.training import Budget, Cell, Measures, Method, Optimiser, Pace, Staleness, method, run
from tpo.lab.training.episode import Learner
from tpo.storage.store import Store

TERMINAL = Cell(
    Sequences(4),
    method("tpo", 4, 6),
    Budget(16, 12, seeds=3),
    policy=Transformer(2, 4, 4, width=16),
)


def same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@pytest.fixture(scope="module")
def curves():
    return run(TERMINAL)


def test_curves_are_finite_and_shaped(curves):
    assert {x.shape for x in curves.values()} == {(3, 12)}
    assert all(np.isfinite(x).all() for x in curves.values())
    assert len(np.unique(curves["gradient_norm"][:, 0])) == 3  # seeds differ


def test_the_chunk_changes_no_bit(curves):
    for chunk in (1, 5):
        same(run(TERMINAL, pace=Pace(chunk=chunk)), curves)


def test_other_seeds_and_other_methods_change_no_bit(curves):
    run(replace(TERMINAL, method=method("dg", 4), policy=PositionTable(4, 2)))
    alone = run(
        replace(TERMINAL, budget=Budget(16, 12, seeds=1, first_seed=2)),
        pace=Pace(data_parallel_size=1),
    )
    for name in curves:
        np.testing.assert_array_equal(alone[name][0], curves[name][2], err_msg=name)


def test_each_seed_and_each_episode_draws_anew():
    """From equal logits, which stay equal at a rate of almost 0, curves differ by what was drawn alone."""
    cell = Cell(
        Sequences(6, reward="bag"),
        method("ppo", 6),
        Budget(4, 6, seeds=3),
        Optimiser("sgd", 1e-12),
        PositionTable(6, 2, spread=0.0),
    )
    errors = run(cell)["error"]
    assert len(np.unique(errors, axis=0)) == 3
    assert all(len(np.unique(row)) > 1 for row in errors)


def test_batched_seeds_give_the_same_curves_to_rounding(curves):
    batched = run(TERMINAL, pace=Pace(batched=True))
    for name in ("error", "gradient_norm", "distinct"):  # later ones drift apart by sampling
        first = batched[name][:, 0], curves[name][:, 0]
        np.testing.assert_allclose(*first, rtol=1e-5, atol=1e-5, err_msg=name)


class StopHereError(Exception):
    pass


@pytest.mark.parametrize("batched", [False, True])
def test_a_stopped_run_resumes_to_identical_numbers(tmp_path, batched):
    pace = Pace(chunk=2, save_every=0.0, batched=batched)
    whole = run(TERMINAL, pace=pace)
    store = Store(tmp_path / "out")

    def stop_at(episode):
        def watch(progress):
            if progress.episode >= episode:
                raise StopHereError

        return watch

    for episode in (4, 10):
        with pytest.raises(StopHereError):
            run_cell(TERMINAL, store, stop_at(episode), pace)
        assert store.checkpoint(TERMINAL.key).episode == episode
    same(run_cell(TERMINAL, store, pace=pace), whole)
    assert store.checkpoint(TERMINAL.key) is None
    same(run_cell(TERMINAL, store, watch=stop_at(0)), whole)  # finished: read back, not run again


def test_an_interruption_saves_what_is_done(tmp_path):
    store = Store(tmp_path / "out")

    def interrupt(progress):
        if progress.episode == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_cell(TERMINAL, store, interrupt, Pace(chunk=3))
    assert store.checkpoint(TERMINAL.key).episode == 6


def test_a_checkpoint_of_another_layout_is_refused(tmp_path):
    store = Store(tmp_path / "out")
    store.begin(TERMINAL.key, {})
    from tpo.storage.store import Snapshot

    store.save(TERMINAL.key, Snapshot(3, {"error": np.zeros((3, 3))}, [np.zeros(2)]))
    with pytest.raises(ValueError, match="does not fit this run"):
        run_cell(TERMINAL, store)


@pytest.mark.parametrize(
    "cell",
    [
        TERMINAL,
        Cell(Digits(), Method("dg", (("advantage", "given"),), Rollout("single", 1, "expected"), 1),
             optimiser=Optimiser("adam"), measures=Measures(200)),
        Cell(Sequences(3, reward="bag"), method("grpo_token", 3), policy=PositionTable(3, 2),
             staleness=Staleness(5, True, "learner")),
    ],
)  # fmt: skip
def test_a_cell_survives_json(cell):
    again = Cell.from_json(json.loads(json.dumps(cell.to_json())))
    assert again == replace(cell, policy=cell.resolved_policy)
    assert again.key == cell.key


def test_the_key_is_stable_and_tells_cells_apart():
    assert Cell(Sequences()).key == Cell(Sequences(10, 2), Method("tpo")).key
    assert Cell(Sequences()).key == "872206e872701570"
    different = [
        Cell(Sequences(9)),
        Cell(Sequences(), method("grpo", 10)),
        Cell(Sequences(), optimiser=Optimiser("muon", 2e-3)),
        Cell(Sequences(), staleness=Staleness(1)),
        Cell(Sequences(), budget=Budget(first_seed=1)),
    ]
    assert len({cell.key for cell in [*different, Cell(Sequences())]}) == 6


def test_interaction_matching_multiplies_prompts_and_rate_of_single_samples():
    single = Cell(Sequences(), method("ppo", 10)).interaction_matched(8)
    assert single.budget.batch == 800
    assert single.optimiser.learning_rate == pytest.approx(1e-3 * 8**0.5)
    grouped = Cell(Sequences(), method("tpo", 10))
    assert grouped.interaction_matched(8) == grouped


@pytest.mark.parametrize("uniform", [False, True])
def test_the_actor_has_the_parameters_of_so_many_episodes_ago(uniform):
    delay = 3
    cell = Cell(
        Sequences(3, reward="bag"),
        method("ppo", 3),
        Budget(8),
        Optimiser("sgd", 0.5),
        PositionTable(3, 2),
        Staleness(delay, uniform),
    )
    learner = Learner(cell, block=8)
    state = learner.init(jnp.uint32(0))
    step = jax.jit(learner.episode)
    history, lags = [], []
    for episode in range(12):
        history.append(np.asarray(state.params["logits"]))
        key = jax.random.split(jax.random.fold_in(jax.random.key(0), episode), 3)[2]
        actor = np.asarray(learner._actor_params(state, jnp.int32(episode), key)[0]["logits"])
        lags.append(next(i for i in range(episode + 1) if (history[-1 - i] == actor).all()))
        state, _ = step(state, (), episode)
    if uniform:
        assert set(lags[delay:]) <= set(range(delay + 1))
        assert len(set(lags[delay:])) > 1
    else:
        assert lags == [min(episode, delay) for episode in range(12)]


def test_the_anchor_is_the_actors_or_the_learners_policy():
    """While the actor is fresh the two agree; once it lags the targets differ."""
    losers = {}
    for anchor in ("actor", "learner"):
        cell = Cell(
            Sequences(3, reward="bag"),
            replace(method("tpo", 3, 4), epochs=1),
            Budget(16, 8),
            Optimiser("sgd", 1.0),
            PositionTable(3, 2),
            Staleness(2, anchor=anchor),
        )
        losers[anchor] = run(cell)["losers"][0]
    assert losers["actor"][0] == pytest.approx(losers["learner"][0], rel=1e-5)
    assert np.abs(losers["actor"][2:] - losers["learner"][2:]).max() > 1e-3


@pytest.mark.parametrize("baseline", ["learner", "actor", "crossed"])
def test_whose_probabilities_make_the_expected_baseline(baseline):
    """Σ pi², Σ mu² or Σ mu·pi, of the learner's pi and the lagging actor's mu."""
    cell = Cell(
        Digits(),
        method("pg", 1),
        Budget(4),
        Optimiser("adam", 0.1),
        staleness=Staleness(2, baseline=baseline),
    )
    learner, data = Learner(cell, block=4), cell.task.load()
    state = learner.init(jnp.uint32(0))
    for episode in range(3):
        state, _ = learner.episode(state, data, jnp.int32(episode))
    contexts = cell.task.contexts(data, jax.random.key(1), 4)
    actor, _ = learner._actor_params(state, jnp.int32(3), jax.random.key(2))
    batch = cell.method.rollout.gather(
        Actor(cell.resolved_policy, actor, learner._baseline_params(state, actor)),
        cell.task,
        contexts,
        jax.random.key(3),
    )

    def probabilities(params):
        return np.asarray(jax.nn.softmax(cell.resolved_policy.prefill(params, contexts.inputs)[0]))

    mu, pi = probabilities(actor), probabilities(state.params)
    expected = {"learner": pi * pi, "actor": mu * mu, "crossed": mu * pi}[baseline].sum(-1)
    assert np.asarray(batch.group.baseline) == pytest.approx(expected, rel=1e-5)
    assert np.abs((pi * pi).sum(-1) - (mu * mu).sum(-1)).max() > 1e-3


def test_without_a_delay_the_baseline_is_no_part_of_a_cells_key():
    plain = Cell(Digits(), method("pg", 1))
    assert plain.key == replace(plain, staleness=Staleness(baseline="actor")).key
    late = [replace(plain, staleness=Staleness(2, baseline=name)) for name in ("learner", "actor")]
    assert late[0].key != late[1].key
    assert [Cell.from_json(cell.to_json()).staleness.baseline for cell in late] == [
        "learner",
        "actor",
    ]


def test_evaluation_happens_every_so_often_on_held_out_digits():
    cell = Cell(Digits(), method("ce", 1), Budget(32, 10), Optimiser("adam"), measures=Measures(4))
    test_error = run(cell)["test_error"][0]
    assert np.flatnonzero(~np.isnan(test_error)).tolist() == [3, 7]
    assert 0 < test_error[7] < test_error[3] <= 1


def test_diagnostics_by_hand():
    """One group solved, one mixed, one failed: shares of thirds, weights by the target."""
    import tpo
    from tpo.lab.rollouts import Batch, every
    from tpo.lab.training import measures

    scores = jnp.array([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    group = tpo.Groups(log_probs_old=jnp.full((3, 2, 1), -0.7), scores=scores)
    taken = jnp.zeros((3, 2, 1), int)
    batch = Batch(group, None, taken[..., None], every(taken), scores[..., None])
    found = measures.of_batch(batch, tpo.objective("tpo").prepare(group))
    # q = 1/2 everywhere but in the mixed group, where u = ±1: e/(e + 1/e) = .880797
    assert float(found["error"]) == pytest.approx(0.5)
    assert float(found["success"]) == pytest.approx(2 / 3)
    assert float(found["zero_variance"]) == pytest.approx(2 / 3)
    assert float(found["winners"]) == pytest.approx((0.5 + 0.5 + 0.880797) / 3, abs=1e-5)
    assert float(found["losers"]) == pytest.approx((0.119203 + 0.5 + 0.5) / 3, abs=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cell(Sequences(), method("tpo_token", 10)), "waits for the end"),
        (lambda: Cell(Sequences(), Method("tpo", (("beta", 1),))), "no option 'beta'"),
        (lambda: method("sarsa", 10), "expected one of tpo"),
        (lambda: Budget(episodes=0), "episodes is 0"),
        (lambda: Optimiser("lion"), "optimiser is 'lion'"),
        (lambda: Optimiser("adam", 0.0), "learning_rate is 0"),
        (lambda: Staleness(-1), "delay is -1"),
        (lambda: Staleness(anchor="both"), "anchor is 'both'"),
        (lambda: Staleness(baseline="both"), "baseline is 'both', expected one of 'learner'"),
        (lambda: Measures(against="dg"), "against is 'dg'"),
        (lambda: Method(epochs=0), "epochs is 0"),
    ],
)
def test_wrong_values_are_named(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
