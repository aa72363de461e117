"""Laws of stores: what is written is read back, whatever it is, and damage is noticed."""

import itertools
import json
import string
import tempfile
import zipfile
from pathlib import Path
from unittest import mock

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tpo.storage import former_names, npz, numbers
from tpo.storage.store import Snapshot, Store, joined

few = settings(max_examples=20, deadline=None)
NAMES = st.text(string.ascii_letters + string.digits + "_/.-= ", min_size=1, max_size=12)
KEYS = st.text("0123456789abcdef", min_size=4, max_size=12)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
DTYPES = st.sampled_from([np.float32, np.float64, np.int32, np.uint32, np.bool_])
ARRAYS = DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0)))
CURVES = hnp.array_shapes(min_dims=2, max_dims=2).flatmap(
    lambda shape: st.dictionaries(
        NAMES, DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, shape)), min_size=1, max_size=3
    )
)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS, PLAIN, min_size=1, max_size=4)
EPISODES = st.lists(st.integers(1, 9), min_size=1, max_size=5)


@pytest.fixture(scope="module")
def fresh():
    """A new store at every call; nothing is flushed to the disk."""
    with tempfile.TemporaryDirectory() as name, mock.patch("os.fsync"):
        numbers = iter(range(10**6))
        yield lambda: Store(Path(name, str(next(numbers))))


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, x in expected.items():
        assert found[name].dtype == x.dtype
        np.testing.assert_array_equal(found[name], x)


def snapshot(episode, seeds=2):
    curves = {"error": np.arange(seeds * episode, dtype=np.float32).reshape(seeds, episode)}
    return Snapshot(episode, curves, [np.arange(seeds), np.float32(episode)])


@few
@given(arrays=st.dictionaries(NAMES, ARRAYS, max_size=4))
def test_arrays_are_read_back(arrays):
    same(npz.from_bytes(bytes(npz.to_bytes(arrays))), arrays)


CONTENT = bytes(npz.to_bytes({"error": np.arange(6.0).reshape(2, 3), "episode": np.asarray(3)}))


@settings(max_examples=150, deadline=None)
@given(place=st.integers(0, len(CONTENT) - 1), change=st.integers(1, 255))
@example(place=len(CONTENT) - 102, change=57)  # hides a member
def test_a_changed_byte_is_noticed_or_changes_no_number(place, change):
    """`np.load` gives [2, 2] numbers for a header of which one digit has changed."""
    damaged = CONTENT[:place] + bytes([CONTENT[place] ^ change]) + CONTENT[place + 1 :]
    expected = npz.from_bytes(CONTENT)
    try:
        found = npz.from_bytes(damaged)
    except Exception:  # what is raised for damage is caught by `intact`
        return
    same(found, expected)


@few
@given(kept=st.integers(0, len(CONTENT) - 1))
def test_a_part_of_a_file_is_refused(kept):
    with pytest.raises((zipfile.BadZipFile, EOFError, ValueError)):
        npz.from_bytes(CONTENT[:kept])


def test_objects_are_refused():
    with pytest.raises(ValueError, match="pickle"):
        npz.from_bytes(bytes(npz.to_bytes({"x": np.array([{}], object)})))


@few
@given(
    curves=CURVES,
    state=st.lists(ARRAYS, max_size=12),
    origin=st.dictionaries(TEXTS, TEXTS, max_size=3),
)
def test_a_checkpoint_is_read_back(fresh, curves, state, origin):
    store, episode = fresh(), next(iter(curves.values())).shape[1]
    store.save("k", Snapshot(episode, curves, state, origin))
    found = store.checkpoint("k")
    assert found.episode == episode
    assert found.origin == origin
    same(found.curves, curves)
    same(dict(enumerate(found.state)), dict(enumerate(state)))


def test_more_than_ten_thousand_arrays_of_a_state_keep_their_order():
    arrays = {f"state/{i:04d}": np.asarray(i) for i in (0, 9999, 10000, 10001)}
    content = npz.to_bytes({**arrays, "episode": np.asarray(1)})
    assert [int(x) for x in Snapshot.from_bytes(bytes(content)).state] == [0, 9999, 10000, 10001]


def test_a_checkpoint_of_an_older_store_is_read(fresh):
    store = fresh()
    (store.folder / "k").mkdir()
    np.savez(
        store.folder / "k" / "checkpoint.npz",
        **{"curve/error": np.ones((2, 3)), "state/0000": np.arange(2), "episode": np.asarray(3)},
    )
    assert store.checkpoint("k").episode == 3
    assert store.checkpoint("k").origin == {}


@few
@given(curves=st.dictionaries(NAMES, ARRAYS, min_size=1, max_size=4))
def test_curves_are_read_back(fresh, curves):
    store = fresh()
    store.finish("k", curves)
    same(store.curves("k"), curves)


@few
@given(first=OBJECTS, second=OBJECTS)
def test_the_first_description_is_kept(fresh, first, second):
    store = fresh()
    store.begin("k", first)
    store.begin("k", second)
    assert store.description("k") == first


@few
@given(keys=st.sets(KEYS, max_size=5))
def test_the_keys_are_those_of_the_runs_that_were_begun(fresh, keys):
    store = fresh()
    for key in keys:
        store.begin(key, {"cell": key})
    assert Store(store.folder).keys() == sorted(keys)


@few
@given(parts=st.lists(st.integers(0, 10**6), min_size=1, max_size=5))
def test_costs_add_up(fresh, parts):
    store = fresh()
    for part in parts:
        store.add_cost("k", part / 8, {"commit": str(part)})
    assert store.cost("k") == {
        "seconds": sum(parts) / 8,
        "provenance": {"commit": str(parts[-1])},
    }


@few
@given(episodes=EPISODES)
def test_the_last_two_checkpoints_are_kept(fresh, episodes):
    store = fresh()
    for episode in episodes:
        store.save("k", snapshot(episode))
    assert store.checkpoint("k").episode == episodes[-1]
    names = sorted(path.name for path in (store.folder / "k").iterdir())
    assert names == ["checkpoint.npz", "previous.npz"][: len(episodes)]
    (store.folder / "k" / "checkpoint.npz").unlink()
    assert (saved.episode if (saved := store.checkpoint("k")) else None) == ([None, *episodes][-2])


@few
@given(episodes=EPISODES, damage=st.binary(max_size=60))
def test_a_broken_checkpoint_gives_way_to_the_one_before(fresh, episodes, damage):
    store = fresh()
    for episode in episodes:
        store.save("k", snapshot(episode))
    (store.folder / "k" / "checkpoint.npz").write_bytes(damage)
    found = store.checkpoint("k")
    assert (found.episode if found else None) == [None, *episodes][-2]
    assert (store.folder / "k" / "checkpoint.npz.broken").read_bytes() == damage
    store.save("k", snapshot(7))
    assert store.checkpoint("k").episode == 7


@few
@given(damages=st.lists(st.binary(max_size=9), min_size=2, max_size=4))
def test_every_broken_file_is_kept(fresh, damages):
    store = fresh()
    for damage in damages:
        store.add_cost("k", 1.0, {})
        (store.folder / "k" / "cost.json").write_bytes(b"\xff" + damage)
        assert store.cost("k")["seconds"] == 0
    kept = {path.read_bytes()[1:] for path in (store.folder / "k").iterdir()}
    assert kept == set(damages)
    assert len(list((store.folder / "k").iterdir())) == len(damages)


@few
@given(damage=st.binary(max_size=40))
def test_a_store_with_runs_survives_the_loss_of_its_mark(fresh, damage):
    store = fresh()
    store.begin("k", {"cell": 1})
    store.mark.write_bytes(b"\xff" + damage)
    assert Store(store.folder).description("k") == {"cell": 1}
    assert json.loads(store.mark.read_text()) == {"version": 1}


@few
@given(name=KEYS, content=st.binary(max_size=9), mark=st.binary(max_size=9) | st.none())
def test_a_folder_of_something_else_is_never_changed(fresh, name, content, mark):
    folder = fresh().folder.with_suffix(".other")
    folder.mkdir()
    (folder / f"{name}.txt").write_bytes(content)
    if mark is not None:
        (folder / "store.json").write_bytes(b"\xff" + mark)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match="not a store of results|store.json is not valid JSON"):
        Store(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


WHOLE = {name: np.random.default_rng(0).random((9, 5)) for name in ("error", "reward")}
SPLITS = st.sets(st.integers(1, 8)).map(lambda inner: [0, *sorted(inner), 9])


@few
@given(edges=SPLITS)
def test_joined_shards_are_the_whole(edges):
    shards = [{n: x[a:b] for n, x in WHOLE.items()} for a, b in itertools.pairwise(edges)]
    same(joined(shards), WHOLE)


@few
@given(edges=SPLITS, data=st.data())
def test_shards_that_are_under_way_show_the_episodes_that_all_have(fresh, edges, data):
    store, reached = fresh(), []
    for a, b in itertools.pairwise(edges):
        episodes = data.draw(st.integers(1, 5))
        reached.append(episodes)
        curves = {name: x[a:b, :episodes] for name, x in WHOLE.items()}
        key = store.shard_key("k", a, b - a)
        store.finish(key, curves) if episodes == 5 else store.save(
            key, Snapshot(episodes, curves, [])
        )
    same(store.so_far("k"), {name: x[:, : min(reached)] for name, x in WHOLE.items()})
    assert store.shards("k") == [(a, b - a) for a, b in itertools.pairwise(edges)]


@few
@given(begun=st.sets(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=6))
def test_shards_share_no_seed_and_only_those_that_do_are_left_out(fresh, begun):
    store = fresh()
    for shard in begun:
        store.save(store.shard_key("k", *shard), snapshot(1))
    (store.folder / "k" / "seeds" / "notes").mkdir(parents=True)
    (store.folder / "k" / "seeds" / "notes" / "x.npz").write_bytes(b"")
    seeds = [{*range(first, first + count)} for first, count in store.shards("k")]
    assert sum(map(len, seeds)) == len(set().union(*seeds))
    for first, count in begun:
        assert {*range(first, first + count)} & set().union(*seeds)


@few
@given(
    values=st.lists(st.floats(-1e300, 1e300) | st.just(np.nan) | st.just(np.inf), max_size=5),
    digits=st.integers(1, 9),
)
def test_plain_numbers_are_json_and_close(values, digits):
    found = json.loads(json.dumps(numbers.plain(values, digits), allow_nan=False))
    for value, plain in zip(values, found, strict=True):
        assert (plain is None) == (not np.isfinite(value))
        assert plain is None or abs(plain - value) <= abs(value) * 10.0 ** (1 - digits)
    assert numbers.plain([np.nan if x is None else x for x in found], digits) == found


OPTIONS = st.dictionaries(
    st.sampled_from(["epochs", "iterations", "ties", "eta", "skip_silent", "weight_dithering"]),
    st.sampled_from(["4", "free", "held", "pooled", "0.5"]),
    min_size=1, max_size=3,
).filter(lambda found: not {"epochs", "iterations"} <= found.keys())  # fmt: skip


@few
@given(options=OPTIONS)
def test_current_names_stay_as_they_are(options):
    once = former_names.current_options(options)
    assert former_names.current_options(once) == once
    assert once.get("ties") not in ("free", "held")
    text = "tpo:" + ":".join(f"{name}={value}" for name, value in options.items())
    current = former_names.current_method(text)
    assert former_names.current_method(current) == current
    assert not {"iterations", "skip_silent"} & {x.split("=")[0] for x in current.split(":")}
