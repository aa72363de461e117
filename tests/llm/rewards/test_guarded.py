"""Guards around reward functions: what they accept, and what they count as a failure."""

import signal
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from tpo.llm.rewards.guarded import Guarded, StartCheck, guard_all

QUIET = pytest.mark.filterwarnings("ignore:a completion could not be scored:RuntimeWarning")


@QUIET
def test_guarded_rewards_one_by_one() -> None:
    def odd(completions: list[str], **_: Any) -> list[Any]:
        return [1, None, float("nan"), float("inf"), "no", True]

    guarded = Guarded(odd, timeout=5.0)
    assert guarded(prompts=[""] * 6, completions=[""] * 6) == [1.0, None, None, None, None, 1.0]
    assert guarded.failures.counts == {"not finite": 2, "no number": 1}
    assert guarded(prompts=[""] * 2, completions=[""] * 2) == [None, None]  # six for two
    assert guarded.failures.counts["shape"] == 1
    assert guarded.__name__ == "odd"


def test_an_alarm_under_a_time_limit_names_the_fix() -> None:
    def with_alarm(**_: Any) -> list[float]:
        """As math-verify limits its time: only in the main thread."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        return [1.0]

    guarded = Guarded(with_alarm, timeout=5.0)
    with pytest.warns(RuntimeWarning, match="leave reward_timeout out"):
        assert guarded(prompts=[""], completions=["1"]) == [None]


@pytest.mark.parametrize(
    "made_of",
    [
        tuple,
        np.array,
        torch.tensor,
        lambda x: torch.tensor(x)[:, None],
        lambda x: torch.tensor(x, requires_grad=True),
        lambda x: [torch.tensor(one) for one in x],
        lambda x: (one for one in x),
    ],
)
def test_rewards_may_be_arrays_and_tensors(made_of: Any) -> None:
    guarded = Guarded(lambda **_: made_of([0.5, 1.0]))
    assert guarded(prompts=["", ""], completions=["", ""]) == [0.5, 1.0]
    assert (guarded.failures.total, guarded.failed) == (0, 0)


@QUIET
@pytest.mark.parametrize("nonsense", [0.5, "ab", {0: 1.0, 1: 1.0}, np.array(1.0), None])
def test_what_holds_no_rewards_is_a_failure_of_all_rows(nonsense: Any) -> None:
    guarded = Guarded(lambda **_: nonsense)
    assert guarded(prompts=["", ""], completions=["", ""]) == [None, None]
    assert guarded.failed == 2
    assert "expected 2 rewards" in guarded.failures.first["shape"]


@QUIET
def test_a_start_without_any_score_is_an_error() -> None:
    def broken(**_: Any) -> list[float]:
        raise KeyError("solution")

    guarded = guard_all([broken], timeout=None)
    assert guarded[0](prompts=[""], completions=[""]) == [None]
    start = StartCheck()
    functions = {"broken": guarded[0]}
    start.check(1.0, functions)
    start.check(1.0, functions)
    with pytest.raises(
        RuntimeError, match=r"of 3 rollout batches could be scored \(raised: broken"
    ):
        start.check(1.0, functions)


def test_a_function_is_guarded_once_and_a_reward_model_never() -> None:
    """A second guard would hide the failures of the first: it sees only None."""
    guarded, model = Guarded(lambda **_: [1.0]), torch.nn.Linear(1, 1)
    assert isinstance(guard_all(guarded.function, timeout=None), Guarded)
    assert guard_all([guarded, model], timeout=None) == [guarded, model]
    assert guard_all(None, timeout=None) is None
