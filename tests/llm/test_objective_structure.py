"""Which objectives need whole groups."""

import pytest

pytest.importorskip("trl")

import tpo
from tpo.llm.objective_structure import fits_micro_batch, needs_whole_groups, reduction


def test_which_objectives_look_at_other_candidates() -> None:
    """By hand: a ratio score reads 0 for everyone at the snapshot; GRPO's ratio is a candidate's own."""
    expected = {
        ("tpo", "sum"): (True, True),
        ("tpo", "mean"): (True, True),
        ("tpo", "ratio"): (False, True),
        ("lpo", "mean_ratio"): (False, True),
    }
    for (name, score), answer in expected.items():
        objective = tpo.objective(name, score=score)
        assert (needs_whole_groups(objective, False), needs_whole_groups(objective, True)) == answer
    assert not needs_whole_groups(tpo.objective("grpo", beta=0.1), True)
    assert not needs_whole_groups(tpo.objective("rloo"), True)
    assert needs_whole_groups(tpo.objective("rebel"), True)


def test_a_kl_inside_the_reward_couples_what_the_advantage_couples() -> None:
    """Candidates of a group, or, where the batch's mean is the baseline, all of them."""
    within = tpo.objective("rloo", beta=0.1)
    over_batch = tpo.objective("ppo", beta=0.1, kl_in_reward=True)
    assert [fits_micro_batch(within, False, whole) for whole in (True, False)] == [True, False]
    assert [fits_micro_batch(over_batch, False, whole) for whole in (True, False)] == [False, False]
    assert fits_micro_batch(over_batch, True, False)  # frozen with the snapshot
    assert fits_micro_batch(tpo.objective("remax", beta=0.1), False, False)
    assert not fits_micro_batch(tpo.objective("reinforce_pp", beta=0.1), False, True)


def test_a_correction_that_removes_candidates_needs_whole_groups() -> None:
    assert needs_whole_groups(tpo.objective("grpo", correct="icepop_sequence"), False)
    assert not needs_whole_groups(tpo.objective("grpo", correct="icepop"), False)
    assert not needs_whole_groups(tpo.objective("grpo", correct="tis"), False)


@pytest.mark.parametrize("name", ["m2po", "clip_cov", "kl_cov", "kto"])
@pytest.mark.parametrize("updated", [False, True])
def test_what_compares_the_tokens_of_a_batch_never_fits_a_micro_batch(
    name: str, updated: bool
) -> None:
    """A trial on a few small groups may select nothing, and then shows no dependence."""
    objective = tpo.objective(name)
    assert needs_whole_groups(objective, updated)
    assert not fits_micro_batch(objective, updated, whole_groups=True)
    assert (reduction(objective, updated) is None) == (name != "kto")
