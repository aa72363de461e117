"""The warning on groups that are not informative says why they are not."""

import re
import warnings

import pytest

pytest.importorskip("trl")

import tpo
from tpo.llm.group_metrics import GroupWarnings


def _batch(fail: float, passed: float) -> dict[str, float]:
    return {
        "groups/zero_variance": fail + passed,
        "groups/all_fail": fail,
        "groups/all_pass": passed,
        "groups/excluded": 0.0,
        "pass@16": 1 - fail,
    }


MIXED, HARD, EASY = _batch(0.4, 0.0), _batch(1.0, 0.0), _batch(0.0, 1.0)


def _warnings(patience: int, batches: list[dict[str, float]], truncated: float = 0.0) -> list[str]:
    group_warnings = GroupWarnings(patience, tpo.objective("tpo"))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for batch in batches:
            group_warnings.check_scores(batch, truncated)
    return [str(one.message) for one in found]


@pytest.mark.parametrize(
    ("batches", "truncated", "words"),
    [
        ([HARD] * 3, 0.0, r"nearly all fail\): take easier prompts"),
        ([HARD] * 3, 0.9, "nearly all fail, and 90% reach the token limit"),
        ([EASY] * 3, 0.0, "nearly all succeed"),
        ([MIXED] * 3 + [HARD] * 3, 0.0, "earlier, 60% of prompts were solved.*has collapsed"),
        ([MIXED] * 3 + [HARD] * 3, 0.9, "solved, and 90% reach the token limit.*has collapsed"),
        ([MIXED] * 3 + [_batch(0.45, 0.45)] * 3, 0.0, "45% always fail and 45% always pass"),
    ],
)
def test_why_groups_are_not_informative(
    batches: list[dict[str, float]], truncated: float, words: str
) -> None:
    (message,) = _warnings(3, batches, truncated)
    assert re.search(words, message)


def test_after_one_lucky_batch_the_policy_has_not_collapsed() -> None:
    (message,) = _warnings(10, [EASY, *[HARD] * 10])
    assert "collapsed" not in message


def test_after_a_batch_with_informative_groups_the_count_starts_again() -> None:
    assert not _warnings(3, [HARD, HARD, MIXED, HARD, HARD])
