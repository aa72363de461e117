"""The warning on groups without a signal says why there is none."""

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


def _told(patience: int, batches: list[dict[str, float]], truncated: float = 0.0) -> list[str]:
    watch = GroupWarnings(patience, tpo.objective("tpo"))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for batch in batches:
            watch.check_scores(batch, truncated)
    return [str(one.message) for one in found]


@pytest.mark.parametrize(
    ("batches", "truncated", "words"),
    [
        ([HARD] * 3, 0.0, r"nearly all fail\): take easier prompts"),
        ([HARD] * 3, 0.9, "nearly all fail, and 90% reach the limit of tokens"),
        ([EASY] * 3, 0.0, "nearly all pass"),
        ([MIXED] * 3 + [HARD] * 3, 0.0, "once 60% of prompts were solved.*has fallen"),
        ([MIXED] * 3 + [HARD] * 3, 0.9, "solved, and 90% reach the limit.*has fallen"),
        ([MIXED] * 3 + [_batch(0.45, 0.45)] * 3, 0.0, "45% always fail and 45% always pass"),
    ],
)
def test_why_groups_have_no_signal(
    batches: list[dict[str, float]], truncated: float, words: str
) -> None:
    (message,) = _told(3, batches, truncated)
    assert re.search(words, message)


def test_one_lucky_batch_makes_no_fall() -> None:
    (message,) = _told(10, [EASY, *[HARD] * 10])
    assert "fallen" not in message


def test_a_batch_with_a_signal_counts_from_the_start_again() -> None:
    assert not _told(3, [HARD, HARD, MIXED, HARD, HARD])
