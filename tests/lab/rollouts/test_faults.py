"""Faults of the actor change what is sampled, and not what the objective compares with."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tpo.lab.policies import CodePolicy
from tpo.lab.rollouts import Actor, Rollout
from tpo.lab.rollouts.faults import Faults, FaultyPolicy
from tpo.lab.tasks import Codes, Sequences
from tpo.lab.training import Budget, Cell, Method, Optimiser

LOGITS = jnp.log(jnp.array([[0.4, 0.3, 0.2, 0.1]]))


# bugs exchange actions 0 with 1 and 2 with 3: 0.8·0.4 + 0.2·0.3 = 0.38
@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        (Faults(), [0.4, 0.3, 0.2, 0.1]),
        (Faults(bugs=0.2), [0.38, 0.32, 0.18, 0.12]),
        (Faults(random=0.4), [0.34, 0.28, 0.22, 0.16]),
        (Faults(bugs=0.5, random=0.5), [0.275, 0.325, 0.175, 0.225]),
        (Faults(temperature=0.5), [16 / 30, 9 / 30, 4 / 30, 1 / 30]),
    ],
)
def test_what_is_sampled_by_hand(faults, expected):
    np.testing.assert_allclose(jax.nn.softmax(faults.logits(LOGITS))[0], expected, rtol=1e-5)


def cell(**changes):
    made = Cell(
        Codes(bits=2, extra="random", size=0.2),
        Method("tpo", (), Rollout("sequence", 4), 1),
        Budget(4, 3),
        Optimiser("adam", 0.1),
        policy=CodePolicy(2),
    )
    return replace(made, **changes)


def test_a_cell_without_faults_has_the_key_that_it_had():
    assert "faults" not in cell().to_json()
    assert "failed" not in cell().to_json()["method"]["rollout"]
    faulty = cell(faults=Faults(bugs=0.1))
    assert faulty.key != cell().key
    assert Cell.from_json(faulty.to_json()) == faulty
    dropping = replace(cell().method, rollout=Rollout("sequence", 4, failed="drop"))
    assert Cell.from_json(cell(method=dropping).to_json()).method.rollout.failed == "drop"
    with pytest.raises(ValueError, match="for tasks of one action"):
        replace(cell(faults=Faults(bugs=0.1)), task=Sequences(3), policy=None)


def test_old_log_probs_are_the_learners():
    from tpo.lab.training.episode import Learner

    faulty = cell(faults=Faults(bugs=1.0))
    learner = Learner(faulty, 16)
    params = {"weight": jnp.eye(2), "bias": jnp.zeros(2)}
    contexts = faulty.task.contexts((), jax.random.key(0), 4)
    actor = Actor(faulty.actor_policy, params)
    assert isinstance(actor.policy, FaultyPolicy)
    batch = faulty.method.rollout.gather(actor, faulty.task, contexts, jax.random.key(1))
    own, _ = faulty.policy.prefill(params, contexts.inputs)
    expected = jnp.take_along_axis(jax.nn.log_softmax(own), batch.candidates[:, :, 0, 0], -1)
    kept = learner._anchored(params, batch)
    np.testing.assert_allclose(kept.group.log_probs_old[..., 0], expected, rtol=1e-5)
    assert np.abs(batch.group.log_probs_old[..., 0] - expected).max() > 0.1


@pytest.mark.parametrize("failed", ["learn", "drop", "anchor"])
def test_groups_without_a_success(failed):
    task = Codes(bits=2, extra="random", size=0.2)
    rollout, policy = Rollout("sequence", 4, failed=failed), CodePolicy(2)
    contexts = task.contexts((), jax.random.key(0), 16)
    actor = Actor(policy, policy.init(jax.random.key(0)))
    group = rollout.gather(actor, task, contexts, jax.random.key(1)).group
    plain = replace(rollout, failed="learn").gather(actor, task, contexts, jax.random.key(1)).group
    solved = np.asarray(plain.scores.max(-1) == 1)
    assert 0 < solved.sum() < 16
    np.testing.assert_array_equal(group.scores[solved], plain.scores[solved])
    if failed == "learn":
        assert group.valid is None
        assert (np.asarray(group.scores.max(-1)) > 0).all()
        return
    assert not np.asarray(group.scores)[~solved].any()
    valid = np.ones((16, 4), bool) if group.valid is None else np.asarray(group.valid)
    assert (valid.all(-1) == (solved if failed == "drop" else True)).all()
