"""A batch divided over two devices is the same batch: equal to rounding, and to itself to the last bit."""

from dataclasses import dataclass, replace

import jax
import numpy as np
import pytest

from support.position_table import PositionTable
from tpo.lab.former_names import ENVIRONMENT_KEYS, current_environment
from tpo.lab.policies import Transformer
from tpo.lab.rollouts import data_parallel
from tpo.lab.tasks import Digits, Sequences
from tpo.lab.training import Budget, Cell, Optimiser, Pace, Staleness, method, run
from tpo.lab.training.environment import environment
from tpo.lab.training.loop import TrainingRun, data_parallel_size_for

pytestmark = pytest.mark.skipif(
    data_parallel.available_size() == 1,
    reason="JAX started with one device before tpo.lab.training was imported",
)


def cell(name, reward="bag", **changed):
    """One seed of a small policy, with steps that do not magnify rounding as Muon's do."""
    plain = Cell(
        Sequences(4, reward=reward),
        method(name, 4, 6),
        Budget(16, 3),
        Optimiser("sgd", 0.5),
        Transformer(2, 4, 4, width=16),
    )
    return replace(plain, **changed)


def trained(cell, **pace):
    """Curves and final parameters of the run, a chunk at a time."""
    runner = TrainingRun(cell, Pace(**pace))
    runner.restore(None)
    while runner.episode < cell.budget.episodes:
        runner.advance()
    return runner.curves(), {k: np.asarray(x) for k, x in runner.states[0].params.items()}


@pytest.mark.parametrize(
    ("cell", "block"),
    [
        (cell("tpo", "terminal"), None),
        (cell("tpo", "terminal"), 5),  # several blocks of paths in each shard
        (cell("tpo_token"), None),
        (cell("ppo"), None),
        (cell("reinforce"), None),
        (cell("tpo", staleness=Staleness(1, anchor="learner")), None),
        (cell("grpo", policy=PositionTable(4, 2)), None),
    ],
)
def test_two_shards_give_the_numbers_of_one(cell, block):
    one, two = (trained(cell, chunk=1, block=block, data_parallel_size=n) for n in (1, 2))
    start = cell.resolved_policy.init(jax.random.key(0))
    assert max(np.abs(one[1][name] - x).max() for name, x in start.items()) > 1e-3  # it learns
    for name, x in one[1].items():
        np.testing.assert_allclose(two[1][name], x, rtol=1e-4, atol=1e-5, err_msg=name)
    for name in one[0].keys() - {"distinct"}:  # shards do not see each other's paths
        np.testing.assert_allclose(two[0][name], one[0][name], rtol=1e-3, atol=1e-5, err_msg=name)
    assert (two[0]["distinct"] >= one[0]["distinct"]).all()


def test_neither_chunks_nor_other_runs_change_a_bit():
    learning = cell("tpo", "terminal", budget=Budget(16, 12), optimiser=Optimiser())
    first = trained(learning, data_parallel_size=2)
    run(cell("dg"))
    run(replace(learning, budget=Budget(16, 4, seeds=2)))
    again = trained(learning, chunk=5, data_parallel_size=2)
    for a, b in zip(first, again, strict=True):
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def test_a_single_seed_of_several_actions_is_divided():
    assert data_parallel_size_for(cell("tpo")) == 2
    assert TrainingRun(cell("tpo"), Pace()).learner.parallel.size == 2
    for other in (
        cell("tpo", budget=Budget(16, 3, seeds=2)),
        cell("tpo", budget=Budget(15, 3)),
        Cell(Digits(), method("tpo", 1)),
    ):
        assert data_parallel_size_for(other) == 1
    assert TrainingRun(cell("tpo"), Pace(batched=True)).learner.parallel.size == 1
    assert environment()["data_parallel_size"] == "2"


@dataclass(frozen=True)
class Counting(PositionTable):
    """Notes how many contexts it is asked about."""

    def prefill(self, params, inputs):
        asked.add(len(inputs))
        return super().prefill(params, inputs)


asked = set()


@pytest.mark.parametrize(("size", "contexts"), [(1, 16), (2, 8)])
def test_each_device_runs_its_shard_of_the_contexts(size, contexts):
    asked.clear()
    trained(cell("ppo", policy=Counting(4, 2)), data_parallel_size=size)
    assert asked == {contexts}


def test_a_wrong_data_parallel_size_is_named():
    odd = TrainingRun(cell("ppo", budget=Budget(15, 3)), Pace(data_parallel_size=2))
    odd.restore(None)
    with pytest.raises(ValueError, match="does not divide 15 contexts"):
        odd.program()
    many = TrainingRun(cell("ppo", budget=Budget(27, 3)), Pace(data_parallel_size=27))
    many.restore(None)
    with pytest.raises(ValueError, match="JAX offers"):
        many.program()


def test_the_environment_of_an_older_store_is_read_with_todays_names():
    (former_key,) = ENVIRONMENT_KEYS
    former = {former_key: "2"}
    older = {"jax": "0.10.2", "platform": "cpu", "device": "cpu", **former}
    newer = {"jax": "0.10.2", "platform": "cpu", "device": "cpu", "data_parallel_size": "2"}
    assert current_environment(older) == current_environment(newer) == newer
