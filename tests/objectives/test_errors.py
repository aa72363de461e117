"""Wrong input gives an error that names the argument and what to do."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import tpo
from tpo.objectives.advantages import ADVANTAGES
from tpo.objectives.parts import Composed, Parts, clip

OLD = np.zeros((2, 3, 4))
SCORES = np.zeros((2, 3))


def group(**changes: Any) -> tpo.Groups:
    return tpo.Groups(**{"log_probs_old": OLD, "scores": SCORES, **changes})


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"scores": SCORES.astype(int)}, TypeError, "scores is int64.*float32 or float64.*cast"),
        ({"scores": SCORES > 0}, TypeError, "scores is bool"),
        ({"scores": SCORES.astype("float16")}, TypeError, "scores is float16.*half precision"),
        ({"scores": SCORES.astype("float32")}, TypeError, "scores is float32 but log_probs_old is"),
        ({"scores": SCORES.tolist()}, TypeError, "scores is a list.*NumPy, JAX or torch"),
        ({"scores": torch.zeros(2, 3)}, TypeError, "log_probs_old is a numpy.*scores a torch"),
        ({"scores": jnp.zeros((2, 3))}, TypeError, "numpy array and scores a jax array"),
        ({"scores": SCORES[:, :1]}, ValueError, r"scores has shape \[2, 1\], expected \[2, 3\]"),
        ({"scores": SCORES[0]}, ValueError, r"scores has shape \[3\]"),
        ({"scores": SCORES + np.nan}, ValueError, "scores holds NaN.*valid="),
        ({"scores": SCORES + np.inf}, ValueError, "scores holds NaN or infinity"),
        ({"log_probs_old": OLD + np.nan}, ValueError, "log_probs_old holds NaN.*mask="),
        ({"log_probs_old": OLD - np.inf}, ValueError, "log_probs_old holds NaN or infinity"),
        ({"log_probs_ref": OLD + np.nan}, ValueError, "log_probs_ref holds NaN"),
        ({"log_probs_rollout": OLD - np.inf}, ValueError, "log_probs_rollout holds NaN"),
        ({"token_scores": OLD + np.nan}, ValueError, "token_scores holds NaN"),
        ({"values": OLD + np.inf}, ValueError, "values holds NaN"),
        ({"baseline": np.array([0.0, np.nan])}, ValueError, "baseline holds NaN.*finite number"),
        ({"log_probs_old": OLD[..., 0]}, ValueError, r"log_probs_old has shape \[2, 3\].*T = 1"),
        ({"log_probs_old": OLD[:, :0]}, ValueError, "K and T at least 1"),
        ({"mask": np.ones((2, 3, 4))}, TypeError, "mask is float64, expected bool: pass mask != 0"),
        ({"mask": np.ones((2, 3), bool)}, ValueError, r"mask has shape \[2, 3\], expected \[2, 3, 4\]"),
        ({"valid": np.ones((2, 3, 4), bool)}, ValueError, "valid has shape"),
        ({"values": OLD[:, :, :1]}, ValueError, "values has shape.*not broadcast"),
        ({"baseline": SCORES}, ValueError, r"baseline has shape \[2, 3\], expected \[2\]"),
        ({"tasks": np.zeros(2)}, TypeError, "tasks is float64, expected integers"),
    ],
)  # fmt: skip
def test_group(changes: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        group(**changes)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_bad_score_is_found_in_torch_and_jax_too(bad: float) -> None:
    for asarray in (jnp.asarray, torch.asarray):
        scores = np.zeros((2, 3), np.float32)
        scores[1, 2] = bad
        with pytest.raises(ValueError, match="scores holds NaN or infinity"):
            tpo.Groups(log_probs_old=asarray(OLD.astype("float32")), scores=asarray(scores))
        with pytest.raises(ValueError, match="scores holds NaN or infinity"):
            tpo.standardize(asarray(scores))


def test_huge_finite_scores_are_not_mistaken_for_infinite_ones() -> None:
    scores = torch.full((1, 4), 3e38)  # their sum overflows, they do not
    assert (tpo.standardize(scores) == 0).all()


def test_half_precision_from_torch() -> None:
    with pytest.raises(TypeError, match="log_scores is bfloat16.*half precision.*cast log_scores"):
        tpo.loss(torch.zeros(2, 3, dtype=torch.bfloat16), torch.zeros(2, 3, dtype=torch.bfloat16))


@pytest.mark.parametrize("eta", [0, -1.0, float("nan"), float("inf"), "1", True])
def test_eta(eta: Any) -> None:
    with pytest.raises(ValueError, match="eta is .*expected a finite number above 0"):
        tpo.target(SCORES, SCORES, eta=eta)
    with pytest.raises(ValueError, match="option eta is .*expected a finite number above 0"):
        tpo.objective("tpo", eta=eta)


def test_primitives() -> None:
    with pytest.raises(ValueError, match=r"u has shape \[3\], expected \[2, 3\]"):
        tpo.target(SCORES, SCORES[0])
    with pytest.raises(ValueError, match=r"mask has shape"):
        tpo.loss(SCORES, SCORES, mask=np.ones(3, bool))
    with pytest.raises(ValueError, match="the group, is empty"):
        tpo.standardize(SCORES[:, :0])
    with pytest.raises(TypeError, match="scores is a float"):
        tpo.standardize(1.0)
    with pytest.raises(TypeError, match="no array was given"):
        tpo.standardize(None)


def test_unknown_names() -> None:
    with pytest.raises(
        ValueError, match=r"unknown objective 'grppo'. Did you mean 'grpo'\?.*tpo, "
    ):
        tpo.objective("grppo")
    with pytest.raises(TypeError, match="tpo has no option 'etta'.*eta: a finite number above 0"):
        tpo.objective("tpo", etta=1.0)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("tpo", {"score": "median"}, "option score is 'median', expected one of 'sum', 'mean'"),
        ("grpo", {"granularity": "word"}, "one of 'token', 'sequence'"),
        ("grpo", {"beta": -0.1}, "option beta is -0.1, expected a finite number, 0 or above"),
        ("ppo", {"clip": 1.5}, "option clip is 1.5, expected a number above 0 and below 1"),
        ("a2c", {"lam": 2.0}, "option lam is 2.0, expected a number from 0 to 1"),
        ("tpo", {"anchor": 1}, "option anchor is 1, expected True or False"),
        ("gdpo", {"reward_weights": [1.0]}, "expected a tuple of numbers"),
    ],
)
def test_option_values(name: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tpo.objective(name, **options)


@pytest.mark.parametrize(
    ("objective", "needs"),
    [
        (tpo.objective("a2c"), "values"),
        (tpo.objective("vapo"), "values"),
        (tpo.objective("ppo", advantage="gae"), "values"),
        (tpo.objective("remax"), "baseline"),
        (tpo.objective("reinforce", advantage="given"), "baseline"),
        (tpo.objectives.tis(tpo.objective("tpo")), "log_probs_rollout"),
    ],
)
def test_missing_fields(objective: tpo.Objective, needs: str) -> None:
    with pytest.raises(ValueError, match=f"needs {needs}: pass"):
        objective.prepare(group())


def test_log_probs_must_fit_the_rollout() -> None:
    objective = tpo.objective("tpo")
    prepared = objective.prepare(group())
    with pytest.raises(ValueError, match=r"log_probs has shape \[2, 3\], expected \[2, 3, 4\]"):
        objective.loss(OLD[..., 0], prepared)
    with pytest.raises(TypeError, match="log_probs is float32 but log_probs_old is float64"):
        objective.coefficients(OLD.astype("float32"), prepared)
    with pytest.raises(TypeError, match="numpy array and log_probs a torch array"):
        objective.loss(torch.zeros(2, 3, 4), prepared)
    with pytest.raises(TypeError, match="groups is a dict, expected tpo.Groups"):
        objective.prepare({})  # type: ignore[arg-type]


def test_what_is_prepared_comes_from_prepare() -> None:
    for wrong, kind in ((OLD, "ndarray"), (group(), "Groups")):
        words = rf"prepared is a {kind}, expected what prepare\(groups\) returned"
        with pytest.raises(TypeError, match=words):
            tpo.objective("tpo").loss(OLD, wrong)
    fit, gradient = tpo.objective("tpo"), tpo.objective("grpo")
    words = "a PreparedPolicy, expected a PreparedTarget: TPO takes what its own prepare"
    with pytest.raises(TypeError, match=words):
        fit.loss(OLD, gradient.prepare(group()))
    with pytest.raises(TypeError, match="a PreparedTarget, expected a PreparedPolicy: GRPO takes"):
        gradient.coefficients(OLD, fit.prepare(group()))


class Borrowing(tpo.Objective):
    """It prepares what REINFORCE does."""

    def _prepare(self, group: tpo.Groups) -> Any:
        return tpo.objective("reinforce").prepare(group)


def test_an_objective_with_a_mistake_of_its_own_keeps_its_error() -> None:
    class Mistaken(Borrowing):
        def _loss(self, xp: Any, log_probs: Any, prepared: Any) -> Any:
            return xp.no_such_function(log_probs)

    with pytest.raises(AttributeError, match="no_such_function"):
        Mistaken().loss(OLD, Mistaken().prepare(group()))


def test_an_advantage_per_token_needs_a_ratio_per_token() -> None:
    class Mixed(Composed):
        def parts(self) -> Parts:
            return Parts(advantage=ADVANTAGES["reward"], ratio="sequence", surrogate=clip(0.2, 0.2))

    with pytest.raises(ValueError, match="one ratio per sequence and an advantage per token"):
        Mixed().prepare(group())


def test_multi_reward_and_multi_task() -> None:
    with pytest.raises(ValueError, match="reward_weights has 3 entries and scores 2 rewards"):
        tpo.objective("gdpo", reward_weights=(1.0, 1.0, 1.0)).prepare(
            group(scores=np.zeros((2, 3, 2)))
        )
    with pytest.raises(ValueError, match=r"tasks holds an id outside 0..0.*task_logits"):
        tpo.objective("mt_grpo").prepare(group(tasks=np.array([0, 1])))
    with pytest.raises(ValueError, match="2, 1 and 2 entries"):
        tpo.objectives.task_logits_after((0.0, 0.0), (0.0,), (0.0, 0.0))


def test_numpy_without_a_closed_form_says_so() -> None:
    class Mean(Borrowing):
        def _loss(self, xp: Any, log_probs: Any, prepared: Any) -> Any:
            return xp.sum(log_probs)

    with pytest.raises(NotImplementedError, match="no closed form: pass JAX or torch arrays"):
        Mean().coefficients(OLD, Mean().prepare(group()))
    ones = Mean().coefficients(torch.zeros(2, 3, 4), Mean().prepare(
        tpo.Groups(log_probs_old=torch.zeros(2, 3, 4), scores=torch.zeros(2, 3))))  # fmt: skip
    assert (ones == 1).all()


def test_registering() -> None:
    with pytest.raises(ValueError, match="'tpo' exists already"):
        tpo.register("tpo", type("Other", (tpo.Objective,), {}))
    with pytest.raises(TypeError, match="expected a subclass of tpo.Objective"):
        tpo.register("mine", int)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="inner is a str, expected a tpo.Objective"):
        tpo.objectives.tis("tpo")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value", ["tis2", "tis@0", "icepop@5-0.5", "icepop@1", "", None, 2, "clip"]
)
def test_a_wrong_correction_names_the_option_and_what_it_accepts(value: object) -> None:
    with pytest.raises(ValueError, match=r"GRPO: option correct is .*expected 'tis', 'icepop'"):
        tpo.objective("grpo", correct=value)
    with pytest.raises(TypeError, match="has no option 'corect'. Did you mean 'correct'"):
        tpo.objective("grpo", corect="tis")
