"""Targets, rewards and data sets, by hand."""

import hashlib
import urllib.error

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support import ROOT
from tpo.lab.rollouts import Rollout
from tpo.lab.tasks import Bandit, Digits, Sequences, images

MNIST = ROOT.parent / "shared" / "data" / "mnist.npz"


@pytest.mark.parametrize(
    ("target", "answer"),
    [
        ("copy", [0, 2, 1]),
        ("flip", [3, 1, 2]),
        ("reverse_copy", [1, 2, 0]),
        ("reverse_flip", [2, 1, 3]),
    ],
)
def test_targets_of_the_prompt_0_2_1_over_four_tokens(target, answer, monkeypatch):
    task = Sequences(3, 4, target)
    monkeypatch.setattr(jax.random, "randint", lambda *_: jnp.array([[0, 2, 1]]))
    contexts = task.contexts((), jax.random.key(0), 1)
    assert contexts.inputs.tolist() == [[0, 2, 1]]
    assert contexts.answer.tolist() == [answer]


@pytest.mark.parametrize(
    ("reward", "first", "second"),
    [
        ("bag", [1, 0, 1, 1], [1, 1, 1, 1]),
        ("sequential", [1, 0, 0, 0], [1, 1, 1, 1]),
        ("terminal", [0, 0, 0, 0], [1, 1, 1, 1]),
    ],
)
def test_rewards_of_one_mistake_and_of_none(reward, first, second):
    task = Sequences(4, 2, reward=reward)
    answer = jnp.array([[0, 1, 1, 0]])
    rewards = task.rewards(answer, jnp.array([[[0, 0, 1, 0], [0, 1, 1, 0]]]))
    assert rewards.tolist() == [[first, second]]


def test_prompts_are_uniform_and_follow_the_key():
    task = Sequences(6, 4)
    prompts = task.contexts((), jax.random.key(1), 2000).inputs
    counts = np.bincount(np.asarray(prompts).ravel(), minlength=4)
    assert np.abs(counts / counts.sum() - 0.25).max() < 0.02
    assert (prompts == task.contexts((), jax.random.key(1), 2000).inputs).all()
    assert not (prompts == task.contexts((), jax.random.key(2), 2000).inputs).all()


def test_a_bandit_goes_round_its_contexts_and_pays_on_arm_0():
    contexts = Bandit(3, 2).contexts((), jax.random.key(0), 5)
    assert contexts.inputs.tolist() == [0, 1, 0, 1, 0]
    rewards = Bandit(3).rewards(contexts.answer[:1], jnp.array([[[0], [1], [2]]]))
    assert rewards.tolist() == [[[1.0], [0.0], [0.0]]]


def test_the_embedded_digits_hold_out_every_fifth():
    data = Digits().load()
    assert (len(data.y_train), len(data.y_test)) == (1437, 360)
    assert data.x_train.shape[1] == Digits().observes[1] == 64
    assert float(data.x_train.max()) == 1.0
    train = {row.tobytes() for row in np.asarray(data.x_train)}
    assert not train & {row.tobytes() for row in np.asarray(data.x_test)}


@pytest.mark.skipif(not MNIST.exists(), reason="needs a local MNIST")
def test_mnist_by_path():
    data = Digits("mnist", str(MNIST)).load()
    assert data.x_train.shape == (60000, 784)
    assert data.y_test.shape == (10000,)
    assert float(data.x_train.max()) == 1.0
    assert np.bincount(np.asarray(data.y_train)).argmax() == 1


def test_a_path_without_mnist_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="Leave path empty"):
        Digits("mnist", str(tmp_path / "none.npz")).load()
    np.savez(tmp_path / "other.npz", x_train=np.zeros(1))
    with pytest.raises(ValueError, match="lacks y_train, x_test, y_test"):
        Digits("mnist", str(tmp_path / "other.npz")).load()


def test_a_download_is_kept_only_with_the_right_checksum(tmp_path):
    content = b"digits"
    good = hashlib.sha256(content).hexdigest()
    with pytest.raises(OSError, match="expected " + "0" * 64):
        images.keep_verified(content, tmp_path / "mnist.npz", "0" * 64)
    assert list(tmp_path.iterdir()) == []
    assert images.keep_verified(content, tmp_path / "mnist.npz", good).read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["mnist.npz"]


def test_no_network_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("TPO_CACHE", str(tmp_path))

    def refuse(*_, **__):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(images.urllib.request, "urlopen", refuse)
    with pytest.raises(OSError, match="give path="):
        images._cached_mnist()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sequences(target="sort"), "target is 'sort', expected one of copy"),
        (lambda: Sequences(reward="none"), "expected one of bag, sequential, terminal"),
        (lambda: Sequences(horizon=0), "horizon is 0"),
        (lambda: Bandit(arms=1), "arms is 1"),
        (lambda: Digits("cifar"), "source is 'cifar'"),
        (lambda: Rollout("groups"), "kind is 'groups', expected one of single"),
        (lambda: Rollout(group_size=0), "group_size is 0"),
        (lambda: Rollout(baseline="mean"), "baseline is 'mean'"),
        (lambda: Rollout("token").check(Sequences()), "waits for the end"),
        (lambda: Rollout("vector").check(Sequences()), "tasks of one action"),
    ],
)
def test_wrong_values_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
