"""The first update of every method, against NumPy: coefficients by formula, gradients by hand.

The policies are tables, for which d log pi(a)/d logits = e_a - pi needs no automatic differentiation.
The optimiser is plain gradient descent, so all E epochs can be followed.
"""

import jax
import numpy as np
import pytest

from support.position_table import PositionTable
from support.reference import softmax
from tpo.lab.policies import Table
from tpo.lab.rollouts import Actor
from tpo.lab.tasks import Bandit, Sequences
from tpo.lab.training import BANDIT_METHODS, SEQUENCE_METHODS, Budget, Cell, Optimiser, method
from tpo.lab.training.episode import Learner

B, K, T, V, RATE = 6, 4, 3, 2, 0.3


def z_score(s):
    sigma = s.std(-1, keepdims=True)
    return np.where(sigma > 0, (s - s.mean(-1, keepdims=True)) / np.where(sigma > 0, sigma, 1), 0)


def clipped(r, a):
    """d/d log r of -min(r·a, clip(r)·a)"""
    is_clipped = ((a > 0) & (r > 1.2)) | ((a < 0) & (r < 0.8))
    return np.where(is_clipped, 0.0, -r * a)


def tpo(ell, old, s, anchor=True):
    return softmax(np, ell) - softmax(np, (old if anchor else 0) + z_score(s))


def tpo_outcomes(ell, old, s):
    """p·(1 - Q/P), Q and P the sums over candidates of one score"""
    p, q = softmax(np, ell), softmax(np, old + z_score(s))
    same = s[..., :, None] == s[..., None, :]
    assert (same.sum((-1, -2)) > s.shape[-1]).any(), "the case needs ties"
    return p * (1 - (same * q[..., None, :]).sum(-1) / (same * p[..., None, :]).sum(-1))


def grpo(ell, old, s, beta=0.04):
    d = np.clip(ell - old, -20, 20)
    return clipped(np.exp(d), z_score(s)) + beta * (1 - np.exp(-d))


def masked(ell, old, s):
    kept = s.std(-1, keepdims=True) > 0
    assert 0 < kept.sum() < len(s), "the case needs groups with and without variance"
    return grpo(ell, old, s) * kept * len(s) / kept.sum()


GROUPED = {
    "tpo": tpo,
    "tpo_no_anchor": lambda ell, old, s: tpo(ell, old, s, anchor=False),
    "tpo_outcomes": tpo_outcomes,
    "group_pg": lambda ell, old, s: -z_score(s),
    "grpo": grpo,
    "grpo_no_kl": lambda ell, old, s: grpo(ell, old, s, 0.0),
    "grpo_masked": masked,
    "tpo_token": tpo,
    "grpo_token": grpo,
}


def dg(x, old, a):
    return -a / (1 + np.exp(a * x))  # gate sigmoid(-a·log pi), times a


SINGLE = {
    "ppo": lambda x, old, a: clipped(np.exp(x - old), a),
    "dg": dg,
    "reinforce": lambda x, old, a: -a,
}


def first_episode(cell):
    """Parameters before and after the first episode, its batch, and what it measured."""
    learner = Learner(cell, block=3)
    state = learner.init(jax.numpy.uint32(cell.budget.first_seed))
    key = jax.random.fold_in(jax.random.key(cell.budget.first_seed), 0)
    for_contexts, for_actions, _ = jax.random.split(key, 3)
    contexts = cell.task.contexts((), for_contexts, cell.budget.batch)
    actor = Actor(cell.resolved_policy, state.params)
    batch = cell.method.rollout.gather(actor, cell.task, contexts, for_actions)
    after, metrics = jax.jit(learner.episode)(state, (), 0)
    logits = [np.asarray(s.params["logits"], np.float64) for s in (state, after)]
    return *logits, batch, metrics


def log_pi(logits):
    return np.log(softmax(np, logits))


def descend(logits, actions, coefficients, epochs):
    """E steps of plain descent; coefficients of the tokens' log-probs, d loss / d log pi."""
    norms = []
    for _ in range(epochs):
        x = log_pi(logits)[np.arange(T), actions]
        c = coefficients(x)
        gradient = np.zeros_like(logits)
        for t in range(T):
            for action in range(V):
                gradient[t, action] += c[..., t][actions[..., t] == action].sum()
            gradient[t] -= c[..., t].sum() * np.exp(log_pi(logits)[t])
        norms.append(np.linalg.norm(gradient))
        logits = logits - RATE * gradient
    return logits, norms[0]


@pytest.mark.parametrize("name", SEQUENCE_METHODS)
def test_first_update_on_sequences(name):
    reward = "terminal" if name == "grpo_masked" else "bag"
    cell = Cell(
        Sequences(T, V, reward=reward),
        method(name, T, K),
        Budget(B, first_seed=3),
        Optimiser("sgd", RATE),
        PositionTable(T, V),
    )
    before, after, batch, metrics = first_episode(cell)
    kind = cell.method.rollout.kind
    actions = np.asarray(batch.candidates[:, 0] if kind == "token" else batch.candidates[..., 0])
    if kind == "token":  # [B, T, K]: one candidate axis, time stays where the table wants it
        actions = actions.swapaxes(1, 2)
        scores = np.asarray(batch.group.scores, np.float64).reshape(B, T, K)
    else:
        scores = np.asarray(batch.group.scores, np.float64)
    old = log_pi(before)[np.arange(T), actions]
    rewards = np.asarray(batch.rewards, np.float64)

    def coefficients(x):
        if kind == "token":  # groups are (b, t): move time in front of the candidates and back
            c = GROUPED[name](x.swapaxes(1, 2), old.swapaxes(1, 2), scores)
            return c.swapaxes(1, 2) / (B * T)
        if kind == "sequence":
            c = GROUPED[name](x.sum(-1), old.sum(-1), scores)
            return np.repeat(c[..., None], T, -1) / B
        return SINGLE[name](x, old, rewards - rewards.mean((0, 1))) / B

    expected, norm = descend(before, actions, coefficients, cell.method.epochs)
    assert np.abs(expected - before).max() > 1e-3
    np.testing.assert_allclose(after, expected, atol=2e-6)
    assert float(metrics["gradient_norm"]) == pytest.approx(norm, rel=1e-4)
    assert float(metrics["error"]) == pytest.approx(1 - rewards.mean(), abs=1e-6)


def bandit_gradient(name, pi, actions):
    """Σ_b c_b(e - pi) per context row: the mean loss over a batch of single actions."""
    n, arms = pi.shape
    taken = np.eye(arms)[actions]
    reward = (actions == 0).astype(float)
    a = reward - (pi**2).sum(-1)
    log_p = np.log(pi[np.arange(n), actions])
    if name == "ce":
        return pi - np.eye(arms)[np.zeros(n, int)]
    if name == "tpo":
        u = z_score(a[:, None] * taken)
        q = pi * np.exp(u)
        return pi - q / q.sum(-1, keepdims=True)
    weight = {
        "pg": a,
        "pg_is": a,
        "ppo": a,
        "dg": a / (1 + np.exp(a * log_p)),
        "grpo": z_score(reward[None])[0],
        "group_pg": np.sqrt(arms - 1) * np.sign(a),
    }[name]
    return weight[:, None] * (pi - taken)


@pytest.mark.parametrize("name", BANDIT_METHODS)
def test_first_update_on_bandits(name):
    arms, n_contexts, n = 5, 3, 12
    cell = Cell(
        Bandit(arms, n_contexts),
        method(name, 1),
        Budget(n, first_seed=1),
        Optimiser("sgd", RATE),
        Table(n_contexts, arms, spread=1.0),
    )
    before, after, _, metrics = first_episode(cell)
    rows = np.arange(n) % n_contexts
    pi = np.exp(log_pi(before))[rows]
    key = jax.random.fold_in(jax.random.key(1), 0)
    noise = jax.random.gumbel(jax.random.split(key, 3)[1], (1, n, 1, 1, arms))
    actions = (np.log(pi) + np.asarray(noise[0, :, 0, 0])).argmax(-1)
    assert 0 < (actions == 0).sum() < n
    gradient = np.zeros_like(before)
    np.add.at(gradient, rows, bandit_gradient(name, pi, actions) / n)
    np.testing.assert_allclose(after, before - RATE * gradient, atol=2e-6)
    assert float(metrics["expected_error"]) == pytest.approx(1 - pi[:, 0].mean(), abs=1e-5)
