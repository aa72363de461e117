"""The transformer against a plain one; cached, shared and blocked computations against full ones."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tpo
from support.reference import log_softmax, transformer
from tpo.lab.policies import MLP, Paths, Table, Transformer
from tpo.lab.policies.layers import rows
from tpo.lab.rollouts import Actor, Rollout, Shape, sample
from tpo.lab.tasks import Sequences
from tpo.lab.training.critic_update import state_values
from tpo.lab.training.gradient import BatchLoss, evaluated, sizes, value_and_grad
from tpo.objectives import value_loss

H, V, K, B = 4, 3, 5, 6
TASK = Sequences(H, V, reward="bag")
POLICY = Transformer(V, H, H, width=16, layers=2, heads=2)


def perturbed(policy, scale=0.3):
    """Parameters in which nothing is 0 or 1, so that every bias and scale counts."""
    params = policy.init(jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), len(params))
    return {
        name: x + scale * jax.random.normal(key, x.shape)
        for key, (name, x) in zip(keys, params.items(), strict=True)
    }


@pytest.fixture(scope="module")
def params():
    return perturbed(POLICY)


def gathered(params, kind, batch=B, task=TASK, policy=POLICY, size=K):
    rollout = Rollout(kind, size)
    contexts = task.contexts((), jax.random.key(2), batch)
    return rollout, rollout.gather(Actor(policy, params), task, contexts, jax.random.key(3))


def full_log_probs(xp, params, prompt, actions):
    """[T] of the actions, from one forward pass of the reference."""
    tokens = xp.concatenate([prompt, actions])
    logits = transformer(xp, params, tokens, POLICY.heads)[H - 1 : -1]
    return log_softmax(xp, logits)[xp.arange(H), actions]


def test_logits_are_those_of_a_plain_transformer(params):
    numbers = {name: np.asarray(x, np.float64) for name, x in params.items()}
    rollout, batch = gathered(params, "sequence")
    ours = evaluated(POLICY, params, rollout.log_probs, batch)
    for b in range(B):
        for k in range(K):
            actions = np.asarray(batch.candidates[b, k, :, 0])
            plain = full_log_probs(np, numbers, np.asarray(batch.inputs[b]), actions)
            np.testing.assert_allclose(ours[b, k], plain, atol=1e-5)


@pytest.mark.parametrize("kind", ["single", "sequence", "token"])
def test_cached_decoding_gives_the_log_probs_of_a_full_forward(params, kind):
    rollout, batch = gathered(params, kind)
    full = evaluated(POLICY, params, rollout.log_probs, batch)
    np.testing.assert_allclose(batch.group.log_probs_old, full, atol=1e-5)


def test_a_shared_prompt_gives_the_numbers_of_separate_ones(params):
    _, batch = gathered(params, "sequence")
    owner = jnp.repeat(jnp.arange(B), K)
    tokens = batch.candidates[..., 0].reshape(B * K, H)[:, : H - 1]
    shared = POLICY.together(params, batch.inputs, Paths(tokens, owner))[1]
    apart = POLICY.together(params, batch.inputs[owner], Paths(tokens, None))[1]
    np.testing.assert_allclose(shared, apart, atol=1e-5)


def test_together_is_prefill_and_extend(params):
    _, batch = gathered(params, "sequence")
    paths = batch.distinct.paths
    first, rest, _ = POLICY.together(params, batch.inputs, paths)
    alone, state = POLICY.prefill(params, batch.inputs)
    np.testing.assert_allclose(first, alone, atol=1e-5)
    np.testing.assert_allclose(rest, POLICY.extend(params, state, paths), atol=1e-5)


def prefix_loss(params, batch, objective, prepared):
    """The token-level loss with every prefix rebuilt as a sequence of its own."""
    prompts, taken = batch.inputs, batch.candidates[:, 0, :, 0]

    def next_token(tokens):
        return log_softmax(jnp, transformer(jnp, params, tokens, POLICY.heads)[-1])

    by_length = [
        jax.vmap(next_token)(jnp.concatenate([prompts, taken[:, :t]], 1)) for t in range(H)
    ]
    after = jnp.stack(by_length, 1).reshape(B * H, V)
    picked = batch.candidates[:, 0].reshape(B * H, -1)
    return objective.loss(jnp.take_along_axis(after, picked, 1)[..., None], prepared)


def moved(params):
    """Parameters after a step, where ratios are no longer 1 and p no longer p_old."""
    return {
        name: x + 0.03 * jnp.sin(jnp.arange(x.size)).reshape(x.shape) for name, x in params.items()
    }


@pytest.mark.parametrize("name", ["tpo", "grpo"])
def test_one_forward_equals_rebuilt_prefixes_in_loss_and_gradient(params, name):
    rollout, batch = gathered(params, "token")
    options = {"granularity": "sequence"} if name == "grpo" else {}
    objective = tpo.objective(name, **options)
    prepared = objective.prepare(batch.group)
    value, grads = value_and_grad(
        BatchLoss(POLICY, rollout.log_probs, batch, lambda x: objective.loss(x, prepared)),
        moved(params),
        100,
    )
    plain = jax.jit(jax.value_and_grad(lambda p: prefix_loss(p, batch, objective, prepared)))
    slow_value, slow = plain(moved(params))
    np.testing.assert_allclose(value, slow_value, rtol=1e-5, atol=1e-6)
    for key, grad in grads.items():
        np.testing.assert_allclose(grad, slow[key], atol=1e-5, err_msg=key)


@pytest.mark.parametrize("block", [1, 7, 16, 30])
def test_the_gradient_does_not_depend_on_the_block(params, block):
    rollout, batch = gathered(params, "sequence")
    assert int(batch.distinct.size) > 16
    objective = tpo.objective("tpo")
    prepared = objective.prepare(batch.group)

    def gradient(block):
        return value_and_grad(
            BatchLoss(POLICY, rollout.log_probs, batch, lambda x: objective.loss(x, prepared)),
            moved(params),
            block,
        )

    value, grads = jax.jit(gradient, static_argnums=0)(block)
    plain_value, plain = jax.jit(gradient, static_argnums=0)(10**6)
    np.testing.assert_allclose(value, plain_value, rtol=1e-6)
    assert max(float(jnp.abs(g).max()) for g in plain.values()) > 1e-3
    for key, grad in grads.items():
        np.testing.assert_allclose(grad, plain[key], atol=1e-6, err_msg=key)


def test_a_critics_gradient_does_not_depend_on_the_block(params):
    _, batch = gathered(params, "sequence")
    critic = POLICY.critic()
    own = moved(critic.init(jax.random.key(0)))
    assert own["head"].any()
    targets = jnp.cos(jnp.arange(batch.candidates[..., 0].size)).reshape(batch.candidates.shape[:3])

    def gradient(block):
        problem = BatchLoss(critic, state_values, batch, lambda x: value_loss(x, targets))
        return value_and_grad(problem, own, block)

    (value, grads), (plain_value, plain) = (
        jax.jit(gradient, static_argnums=0)(n) for n in (7, 10**6)
    )
    assert float(value) == pytest.approx(float(plain_value), rel=1e-6)
    assert max(float(jnp.abs(g).max()) for g in plain.values()) > 1e-3
    for key, grad in grads.items():
        np.testing.assert_allclose(grad, plain[key], atol=1e-6, err_msg=key)


@pytest.mark.parametrize("sharpness", [(1,), (1, 1), (1, 30, 30), (30, 1, 30, 0.1), (30, 30)])
def test_seeds_together_have_the_gradients_of_each_alone(params, sharpness):
    """A sharp head repeats paths: few are computed where all seeds are sharp, all where one is not."""
    seeds = [params | {"head": params["head"] * x} for x in sharpness]
    rollout, objective = Rollout("sequence", 6), tpo.objective("tpo")

    def gradient(p, block, axis):
        contexts = TASK.contexts((), jax.random.key(2), B)
        batch = rollout.gather(Actor(POLICY, p), TASK, contexts, jax.random.key(3))
        prepared = objective.prepare(batch.group)
        loss = lambda x: objective.loss(x, prepared)  # noqa: E731
        grads = value_and_grad(
            BatchLoss(POLICY, rollout.log_probs, batch, loss), moved(p), block, axis
        )[1]
        return grads, batch.distinct.size

    assert sizes(B, B * 6) == [2 * B, B * 6]
    together = jax.vmap(lambda p: gradient(p, 1, "seeds")[0], axis_name="seeds")
    found = jax.jit(together)(jax.tree.map(lambda *x: jnp.stack(x), *seeds))
    alone = [gradient(p, 10**6, None) for p in seeds]
    assert [int(size) > 2 * B for _, size in alone] == [x <= 1 for x in sharpness]
    for key, grads in found.items():
        for i, grad in enumerate(grads):
            np.testing.assert_allclose(grad, alone[i][0][key], atol=2e-5, err_msg=key)


@pytest.mark.parametrize(("table", "picks"), [((7, 2), 40), ((50, 3), 20), ((3, 4, 5), 11)])
def test_rows_are_added_up_where_they_came_from(table, picks, monkeypatch):
    """Also by the products that an accelerator does it with."""
    index = jax.random.randint(jax.random.key(0), (picks,), 0, table[0])
    dy = jax.random.normal(jax.random.key(1), (picks, *table[1:]))
    expected = np.zeros(table)
    np.add.at(expected, np.asarray(index), np.asarray(dy))
    for backend in ("cpu", "gpu"):
        monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
        _, pull = jax.vjp(lambda x: rows(x, index), jnp.zeros(table))
        np.testing.assert_allclose(pull(dy)[0], expected, atol=1e-5)


def test_the_gradient_is_that_of_the_plain_transformer(params):
    rollout, batch = gathered(params, "sequence", batch=2)
    objective = tpo.objective("tpo")
    prepared = objective.prepare(batch.group)

    prompts = jnp.repeat(batch.inputs, K, 0)
    paths = batch.candidates[..., 0].reshape(-1, H)

    def slow(params):
        one = partial(full_log_probs, jnp, params)
        return objective.loss(jax.vmap(one)(prompts, paths).reshape(2, K, H), prepared)

    _, grads = value_and_grad(
        BatchLoss(POLICY, rollout.log_probs, batch, lambda x: objective.loss(x, prepared)),
        moved(params),
        4,
    )
    for key, grad in jax.jit(jax.grad(slow))(moved(params)).items():
        np.testing.assert_allclose(grads[key], grad, atol=1e-5, err_msg=key)


def test_initial_scales_are_the_artifacts():
    policy = Transformer(50, 40, 40, width=64)
    params = policy.init(jax.random.key(0))
    expected = {"qkv": 64**-0.5, "out": 64**-0.5, "up": 64**-0.5, "down": 256**-0.5}
    expected |= {"embed": 64**-0.5, "position": 0.02}
    for name, sd in expected.items():
        assert float(params[name].std()) == pytest.approx(sd, rel=0.06), name
    assert all(not params[name].any() for name in params if name.endswith("bias"))


def test_greedy_sampling_takes_the_most_probable(params):
    prompts = jax.random.randint(jax.random.key(5), (B, H), 0, V)
    drawn = sample(POLICY, params, prompts, Shape(1, H, 1), None)
    for b in range(B):
        tokens = np.asarray(prompts[b])
        for t in range(H):
            best = int(
                transformer(np, {k: np.asarray(v) for k, v in params.items()}, tokens, 2)[
                    -1
                ].argmax()
            )
            assert int(drawn.taken[b, 0, t]) == best
            tokens = np.append(tokens, best)


def test_an_mlp_and_a_table_by_hand():
    mlp = MLP(2, 2, hidden=(1,))
    params = {
        "weight0": jnp.array([[1.0], [-2.0]]),
        "bias0": jnp.array([0.5]),
        "weight1": jnp.array([[3.0, -1.0]]),
        "bias1": jnp.array([0.0, 1.0]),
    }
    # relu(1*1 - 2*0 + .5) = 1.5 -> (4.5, -.5); relu(0 - 2 + .5) = 0 -> (0, 1)
    logits, _ = mlp.prefill(params, jnp.array([[1.0, 0.0], [0.0, 1.0]]))
    np.testing.assert_allclose(logits, [[4.5, -0.5], [0.0, 1.0]])
    table = Table(2, 3)
    np.testing.assert_array_equal(
        table.prefill({"logits": jnp.eye(2, 3)}, jnp.array([1, 0]))[0], jnp.eye(2, 3)[::-1]
    )
    with pytest.raises(TypeError, match="one action"):
        table.extend(None, None, None)
    with pytest.raises(ValueError, match="heads = 3"):
        Transformer(2, 3, 3, width=16, heads=3)
