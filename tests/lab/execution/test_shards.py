"""Shards run separately and joined give the numbers of the whole job, however its seeds were divided."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpo.lab import studies
from tpo.lab.execution.inline import Inline
from tpo.lab.execution.runner import Job, Request, plan, run, run_cell
from tpo.lab.execution.scheduler import Scheduler
from tpo.lab.execution.shards import checkpoint, job_shards, shard_counts
from tpo.lab.policies import Transformer
from tpo.lab.studies.computations import Talk
from tpo.lab.tasks import Sequences
from tpo.lab.training import Budget, Cell, Pace, method
from tpo.lab.training import run as train
from tpo.storage.store import Snapshot, Store, joined

SEEDS = 5


@pytest.fixture(scope="module")
def planned():
    (found,) = plan(Request(studies.get_study("tabular_single"), "smoke", SEEDS, ("tpo",)))
    return found


@pytest.fixture(scope="module")
def whole(planned):
    return train(planned.cell)


def same(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


def ranges(found):
    return [(shard.cell.budget.first_seed, shard.cell.budget.seeds) for shard in found]


def with_budget(job, **changes):
    return replace(job, cell=replace(job.cell, budget=replace(job.cell.budget, **changes)))


class Split(Inline):
    """The engine of one process, with jobs divided into shards."""

    splits = True

    def __init__(self, size):
        super().__init__()
        self.size = size


class Noted(Store):
    """Notes which keys were finished."""

    def finish(self, key, curves):
        self.finished = [*getattr(self, "finished", []), key]
        super().finish(key, curves)


@pytest.mark.parametrize(("size", "shards"), [(1, 2), (2, 3), (9, 5)])
def test_any_split_gives_the_same_bits(tmp_path, planned, whole, size, shards):
    store = Noted(tmp_path / "s")
    told = []
    with Scheduler(Split(size), store, lambda _, state: told.append(state)) as scheduler:
        scheduler.run([planned])
    same(store.curves(planned.key), whole)
    assert len(store.finished) == shards + 1
    assert told[-1] is None
    assert told[-2].episode == planned.episodes
    same(told[-2].curves, whole)
    assert [state.episode for state in told[:-1]] == sorted(state.episode for state in told[:-1])
    assert not store.shards(planned.key)


def test_a_shard_of_one_seed_rounds_as_the_whole_job(tmp_path):
    """As a job of one seed its batch would be divided over devices."""
    cell = Cell(
        Sequences(3), method("tpo", 3, 4), Budget(8, 6, 2), policy=Transformer(2, 3, 3, width=8)
    )
    job, store = Job({"H": 3}, "tpo", "tpo", cell), Store(tmp_path / "s")
    assert [shard.data_parallel_size for shard in job_shards(job, store, 2)] == [1, 1]
    with Scheduler(Split(2), store) as scheduler:
        scheduler.run([job])
    same(store.curves(job.key), train(cell))


def test_seeds_are_divided_evenly(tmp_path, planned):
    store = Store(tmp_path / "s")
    assert ranges(job_shards(planned, store, 2)) == [(0, 3), (3, 2)]
    assert ranges(job_shards(planned, store, 9)) == [(seed, 1) for seed in range(SEEDS)]
    assert [shard.where for shard in job_shards(planned, store)] == [planned.key]
    later = with_budget(planned, first_seed=7)
    assert ranges(job_shards(later, store, 2)) == [(7, 3), (10, 2)]


def test_what_was_begun_stays_divided_as_it_was(tmp_path, planned, whole):
    """One shard is finished, one has a checkpoint, the rest is new: one process ends them all."""
    store, key = Store(tmp_path / "s"), planned.key
    finished, half, _ = job_shards(planned, store, 3)
    assert ranges([finished, half]) == [(0, 2), (2, 2)]
    store.finish(finished.where, train(finished.cell))
    stop_after(2, half, store)
    assert ranges(job_shards(planned, store)) == [(0, 2), (2, 2), (4, 1)]
    assert ranges(job_shards(planned, store, 5)) == [(0, 2), (2, 2), (4, 1)]
    shown = store.so_far(key)  # what the report has meanwhile: four seeds, two episodes
    same(shown, {name: x[:4, :2] for name, x in whole.items()})
    told = []
    with Scheduler(Inline(), store, lambda _, state: told.append(state)) as scheduler:
        scheduler.run([planned])
    same(store.curves(key), whole)
    assert told[-2].episode == planned.episodes
    assert sorted(path.name for path in (store.folder / key).iterdir()) == [
        "cell.json",
        "cost.json",
        "curves.npz",
    ]


def test_finished_shards_are_joined(tmp_path, planned, whole):
    store = Store(tmp_path / "s")
    for shard in job_shards(planned, store, 2):
        store.finish(shard.where, train(shard.cell))
    ended = []
    with Scheduler(Inline(), store, lambda one, state: ended.append(one)) as scheduler:
        scheduler.run([planned])
    assert ended == [planned]
    same(store.curves(planned.key), whole)


def stop_after(episodes, shard, store):
    """Leave the checkpoint of a run that was stopped there."""

    def stop(progress):
        if progress.episode == episodes:
            raise KeyboardInterrupt

    elsewhere = Store(store.folder / "elsewhere")
    with pytest.raises(KeyboardInterrupt):
        run_cell(shard.cell, elsewhere, stop, Pace(chunk=1))
    store.save(shard.where, elsewhere.checkpoint(shard.cell.key))


def test_a_checkpoint_of_all_seeds_is_shared_out(tmp_path, planned, whole):
    store = Store(tmp_path / "s")
    stop_after(3, job_shards(planned, store)[0], store)
    divided = job_shards(planned, store, 3)
    found = [checkpoint(shard, store) for shard in divided]
    assert [saved.episode for saved in found] == [3, 3, 3]
    assert [saved.state[0].tolist() for saved in found] == [0, 2, 4]  # the first seed of each
    with Scheduler(Split(3), store) as scheduler:
        scheduler.run([planned])
    same(store.curves(planned.key), whole)


@settings(max_examples=25, deadline=None)
@given(
    begun=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5)), max_size=4),
    seeds=st.integers(1, 9),
    first=st.integers(0, 3),
    count=st.integers(1, 12),
)
def test_shards_have_each_seed_once(tmp_path_factory, planned, begun, seeds, first, count):
    """Whatever shards earlier runs have begun, even two runs at once that divided the seeds differently."""
    job = with_budget(planned, first_seed=first, seeds=seeds)
    store = Store(tmp_path_factory.mktemp("shards") / "s")
    inside = [(first + a, n) for a, n in begun if a + n <= seeds]
    for shard in inside:
        store.save(store.shard_key(job.key, *shard), Snapshot(1, {}, [np.zeros(())]))
    found = ranges(job_shards(job, store, count))
    covered = [seed for start, size in found for seed in range(start, start + size)]
    assert covered == list(range(first, first + seeds))
    assert {*store.shards(job.key)} <= {*found}
    if not inside:
        assert len(found) <= min(count, seeds)


@settings(max_examples=25, deadline=None)
@given(count=st.integers(2, 9), leaves=st.integers(1, 3), episode=st.integers(1, 4))
def test_a_shared_out_checkpoint_loses_nothing(tmp_path_factory, planned, count, leaves, episode):
    store = Store(tmp_path_factory.mktemp("shared") / "s")
    curves = {"error": np.random.default_rng(0).random((SEEDS, episode))}
    state = [np.asarray(i) for i in range(SEEDS * leaves)]
    store.save(planned.key, Snapshot(episode, curves, state, {"jax": "0.9"}))
    found = [checkpoint(s, store) for s in job_shards(planned, store, count)]
    assert [int(x) for saved in found for x in saved.state] == list(range(SEEDS * leaves))
    assert {saved.origin["jax"] for saved in found} == {"0.9"}
    same(joined([saved.curves for saved in found]), curves)


def test_a_checkpoint_of_seeds_computed_together_is_not_divided(tmp_path, planned):
    store = Store(tmp_path / "s")
    store.save(planned.key, Snapshot(1, {"error": np.zeros((SEEDS, 1))}, [np.arange(SEEDS)]))
    assert ranges(job_shards(planned, store, 5)) == [(0, SEEDS)]


def test_a_computation_is_one_shard(tmp_path):
    (shard,) = job_shards(Job({}, "tpo", "TPO", Talk()), Store(tmp_path / "s"), 4)
    assert shard.cell == Talk()
    assert shard.seeds == 1


def test_no_shard_is_longer_than_half_a_fair_share(planned):
    longer = with_budget(planned, episodes=10 * planned.episodes).cell
    # 10 of 12 parts of the work in the long job: with 3 workers, half a share is 12/6 = 2 parts
    assert shard_counts([longer, planned.cell, planned.cell], 3) == [5, 1, 1]
    assert shard_counts([Talk()], 3) == [1]


def test_a_run_of_one_process_leaves_no_shards(tmp_path):
    (planned,) = run(
        Request(studies.get_study("tabular_single"), "smoke", methods=("pg",)), tmp_path / "s"
    )
    assert not (tmp_path / "s" / planned.key / "seeds").exists()
