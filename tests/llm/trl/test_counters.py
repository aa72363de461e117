"""Counters go through a checkpoint's JSON: a resumed run counts on from there."""

import json
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("transformers")

from tpo.llm.trl import counters
from tpo.llm.trl.counters import ElapsedSeconds, SkipAndFailureCounts


def skip_and_failures(*by_kind: dict[str, int], **steps: Any) -> SkipAndFailureCounts:
    skip_steps = SimpleNamespace(**{"nonfinite": 0, "zero_gradient": 0, "reports": [], **steps})
    rewards = [SimpleNamespace(failures=SimpleNamespace(counts=Counter(one))) for one in by_kind]
    return SkipAndFailureCounts(skip_steps, [len, *rewards])


def through_a_checkpoint(before: Any, after: Any) -> None:
    state = SimpleNamespace(stateful_callbacks={})
    before.on_step_end(None, state, None)
    state.stateful_callbacks = json.loads(json.dumps(state.stateful_callbacks))
    after.on_train_begin(None, state, None)


def test_skips_and_failures_continue() -> None:
    before = skip_and_failures(
        {"ValueError": 3}, {"timeout": 1}, nonfinite=2, zero_gradient=5, reports=["step 7: nan"]
    )
    after = skip_and_failures({}, {})
    through_a_checkpoint(before, after)
    assert after.to_dict() == before.to_dict()
    after.failures[0].counts["ValueError"] += 1
    assert after.failures_by_kind == {"ValueError": 4, "timeout": 1}
    steps = after.skip_steps
    assert (steps.nonfinite, steps.zero_gradient, steps.reports) == (2, 5, ["step 7: nan"])


def test_with_another_number_of_rewards_their_failures_start_from_0() -> None:
    after = skip_and_failures({})
    through_a_checkpoint(skip_and_failures({"ValueError": 3}, {}, nonfinite=2), after)
    assert after.failures_by_kind == {}
    assert after.skip_steps.nonfinite == 2


def test_seconds_of_earlier_parts_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(counters.time, "perf_counter", lambda: clock.now)
    before = ElapsedSeconds()
    clock.now = 130.0
    after = ElapsedSeconds()
    through_a_checkpoint(before, after)
    clock.now = 135.0
    assert after.total == 35.0
