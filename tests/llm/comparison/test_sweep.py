"""`--sweep NAME=A,B` of a comparison: every method with each value, as methods of their own."""

from typing import Any

import pytest

from tpo.llm.comparison.plan import make_plan

OPTIONS = {"model": "m", "task": "gym:chain_sum"}


def names(**comparison: Any) -> list[str]:
    return [method.name for method in make_plan(comparison, OPTIONS).methods]


@pytest.mark.parametrize("given", ["learning_rate=1e-6,1e-5", {"learning_rate": [1e-6, 1e-5]}])
def test_every_method_is_compared_with_each_value(given: Any) -> None:
    assert names(compare="tpo:eta=0.5,grpo", sweep=given) == [
        "tpo:eta=0.5:learning_rate=1e-06", "tpo:eta=0.5:learning_rate=1e-05",
        "grpo:learning_rate=1e-06", "grpo:learning_rate=1e-05",
    ]  # fmt: skip


def test_one_method_is_enough() -> None:
    assert names(compare="tpo", sweep="eta=0.5,1,2") == [
        "tpo:eta=0.5",
        "tpo:eta=1.0",
        "tpo:eta=2.0",
    ]


def test_the_command_that_repeats_it_lists_the_methods() -> None:
    plan = make_plan({"compare": "tpo", "sweep": "eta=0.5,2"}, OPTIONS)
    assert "--compare tpo:eta=0.5,tpo:eta=2.0" in plan.command


@pytest.mark.parametrize(
    ("sweep", "words"),
    [
        ("eta", "sweep is 'eta', expected one option and its values"),
        ("eta=", "expected one option and its values"),
        ("etta=1,2", "has no option 'etta'. Did you mean 'eta'"),
        ("eta=-1,2", "eta"),
        ("eta=1,1.0", "sweep holds eta=1.0 2 times|sweep holds eta=1 2 times"),
    ],
)
def test_a_wrong_sweep_names_itself(sweep: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        names(compare="tpo", sweep=sweep)


def test_an_option_is_set_once() -> None:
    with pytest.raises(ValueError, match="sets eta, which is swept"):
        names(compare="tpo:eta=1,grpo", sweep="eta=1,2")
    with pytest.raises(ValueError, match="sets eta, which is tuned"):
        names(compare="tpo", sweep="eta=1,2", tune="eta=3,4")
