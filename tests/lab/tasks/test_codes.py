"""Codes: what is rewarded, what is right, and how often the first policy finds it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tpo.lab.policies import CodePolicy
from tpo.lab.tasks import Codes
from tpo.lab.tasks.base import Contexts
from tpo.lab.tasks.shapes import check_shapes

PROMPT = jnp.array([[1.0, -1.0]])  # the code of action 1: its first bit is set, its second is not


def rewards(task, key=0):
    noise = jax.random.key_data(jax.random.split(jax.random.key(key), 1))
    return np.asarray(task.rewards((PROMPT, noise), jnp.arange(4).reshape(1, 4, 1)))[0, :, 0]


# shares of right bits of actions 0 to 3 (codes --, +-, -+, ++): 1/2, 1, 0, 1/2
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0, 1, 0, 0]),
        ({"extra": "helpful", "size": 0.2}, [0.1, 1, 0, 0.1]),
        ({"extra": "misleading", "size": 0.2}, [0.1, 1, 0.2, 0.1]),
        ({"extra": "systematic", "size": 0.2}, [0, 1, 0, 0.2]),
        ({"extra": "systematic", "size": 0.2, "rewarded": "all"}, [0, 1.2, 0, 0.2]),
        ({"corrupted": 1.0}, [1, 0, 1, 1]),
    ],
)
def test_rewards_by_hand(options, expected):
    task = Codes(bits=2, **options)
    check_shapes(task)
    np.testing.assert_allclose(rewards(task), expected, atol=1e-6)
    right = task.right((PROMPT, None), jnp.arange(4).reshape(1, 4, 1))[0, :, 0]
    assert right.tolist() == [0, 1, 0, 0]


def test_noise_is_of_the_prompt_and_within_its_size():
    noisy = Codes(bits=2, extra="random", size=0.3)
    first, again, other = rewards(noisy), rewards(noisy), rewards(noisy, key=1)
    assert first.tolist() == again.tolist() != other.tolist()
    assert first[1] == 1
    assert 0 < first[0] < 0.3
    assert len(set(first.tolist())) == 4


def test_as_many_rewards_are_inverted_as_asked():
    task = Codes(bits=2, corrupted=0.3)
    contexts = task.contexts((), jax.random.key(0), 4000)
    wrong = 1 - task.right(contexts.answer, jnp.zeros((4000, 1, 1), jnp.int32))
    found = task.rewards(contexts.answer, jnp.zeros((4000, 1, 1), jnp.int32))
    assert float((found == wrong).mean()) == pytest.approx(0.3, abs=0.03)


def test_the_first_policy_finds_a_right_code_with_its_probability():
    task, policy = Codes(bits=3), CodePolicy(3, rare=0.3)
    contexts: Contexts = task.contexts((), jax.random.key(0), 16)
    logits, _ = policy.prefill(policy.init(jax.random.key(1)), contexts.inputs)
    actions = jnp.broadcast_to(jnp.arange(8), (16, 8))[..., None]
    p = (jax.nn.softmax(logits) * task.right(contexts.answer, actions)[..., 0]).sum(-1)
    np.testing.assert_allclose(p, 0.2**3, rtol=1e-5)
    values, _ = policy.critic().prefill(policy.critic().init(jax.random.key(0)), contexts.inputs)
    assert values.shape == (16, 1)
    assert not values.any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Codes(bits=0), "bits is 0"),
        (lambda: Codes(extra="kind"), "extra is 'kind', expected one of helpful"),
        (lambda: Codes(rewarded="some"), "rewarded is 'some'"),
        (lambda: Codes(size=0.5), "size is 0.5"),
        (lambda: Codes(corrupted=2), "corrupted is 2"),
        (lambda: CodePolicy(3, rare=0.5), "rare is 0.5"),
    ],
)
def test_wrong_options_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
