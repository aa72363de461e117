"""Steps that change nothing: those with a gradient that is not finite, and those with a zero gradient."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")
import torch

from support import tiny_model


def test_a_step_with_a_nan_is_skipped_counted_and_traced_to_its_group(tmp_path: Path) -> None:
    made = tiny_model.trainer(
        tmp_path, max_steps=3, per_device_train_batch_size=2, gradient_accumulation_steps=4
    )
    broken: dict[str, Any] = {}
    forward = made.log_probs.of_batch

    def nan_once(model: Any, inputs: Any, **options: Any) -> Any:
        log_probs, *rest = forward(model, inputs, **options)
        if made.state.global_step == 1 and torch.is_grad_enabled() and not broken:
            broken["group"] = int(inputs["row"][0]) // 4
            broken["before"] = tiny_model.weights(made).clone()
            factor = torch.ones_like(log_probs)
            factor[0] = torch.nan
            log_probs = log_probs * factor
        return (log_probs, *rest)

    made.log_probs.of_batch = nan_once
    with pytest.warns(UserWarning, match=r"step 1 was skipped \(1 so far\).*group \d.*prompt: w"):
        made.train()
    assert made.skip_steps.nonfinite == 1
    report = made.skip_steps.reports[0]
    assert report["step"] == 1
    assert report["groups"] == [broken["group"]]
    assert report["prompts"][0].startswith("w")
    logged = [row["skipped_steps"] for row in made.state.log_history if "skipped_steps" in row]
    assert logged == [0.0, 1.0, 0.0]
    assert tiny_model.weights(made).isfinite().all()


def test_a_skipped_step_moves_nothing(tmp_path: Path) -> None:
    made = tiny_model.trainer(tmp_path, max_steps=1)
    before = tiny_model.weights(made).clone()

    def poison(gradient: torch.Tensor) -> torch.Tensor:
        return gradient * torch.inf

    next(made.model.parameters()).register_hook(poison)  # finite loss, infinite gradient
    with pytest.warns(UserWarning, match="its gradient is NaN or infinite, because of group 0, 1"):
        made.train()
    assert torch.equal(tiny_model.weights(made), before)


def test_a_nonfinite_first_epoch_does_not_make_a_zero_gradient_batch(tmp_path: Path) -> None:
    made = tiny_model.trainer(tmp_path, max_steps=2, num_iterations=2, skip_zero_gradient=True)
    before = tiny_model.weights(made).clone()

    def poison_once(gradient: torch.Tensor) -> torch.Tensor:
        return gradient * (torch.inf if made.state.global_step == 0 else 1.0)

    next(made.model.parameters()).register_hook(poison_once)
    with pytest.warns(UserWarning, match="step 0 was skipped"):
        made.train()
    assert (made.skip_steps.nonfinite, made.skip_steps.zero_gradient) == (1, 0)
    assert not torch.equal(tiny_model.weights(made), before)


SPLIT = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}


@pytest.mark.parametrize(
    "changes",
    [
        {"objective": "tpo"},
        {"objective": "tpo_outcomes"},
        {"objective": "grpo"},
        {"objective": "tpo", "score": "mean", **SPLIT},  # rescored: rounding leaves a gradient
    ],
)
@pytest.mark.parametrize("skip", [True, False])
def test_a_batch_without_an_informative_group_changes_nothing_if_zero_gradient_steps_are_skipped(
    tmp_path: Path, changes: dict[str, Any], skip: bool
) -> None:
    """Scores in the first of three batches only, three epochs each; after it Adam's momentum is left."""
    after: list[torch.Tensor] = []

    def first_batch_only(completions: list[str], **_: Any) -> list[float]:
        after.append(tiny_model.weights(made).clone())
        return tiny_model.reward(completions) if len(after) == 1 else [0.0] * len(completions)

    options = {"skip_zero_gradient": skip, "num_iterations": 3, "max_steps": 9, **changes}
    made = tiny_model.trainer(tmp_path, first_batch_only, **options)
    made.train()
    start, one, two = after
    assert not torch.equal(start, one)
    assert torch.equal(one, two) == skip
    assert torch.equal(two, tiny_model.weights(made)) == skip
    assert made.skip_steps.nonfinite == 0
    logged = [
        row["zero_gradient_steps"] for row in made.state.log_history if "zero_gradient_steps" in row
    ]
    assert logged == [0.0] * 3 + [float(skip)] * 6
    assert made.skip_steps.zero_gradient == sum(logged)
    steps = {int(state["step"]) for state in made.optimizer.state.values()}
    assert steps == {3 if skip else 9}  # Adam's own count


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_step_over_several_batches_has_a_zero_gradient_if_no_batch_is_informative(
    tmp_path: Path, epochs: int
) -> None:
    """Two rollout batches a step, or one twice; of the six the second and the fifth have scores."""
    batches = iter([False, True, False, False, True, False])

    def some(completions: list[str], **_: Any) -> list[float]:
        return tiny_model.reward(completions) if next(batches) else [0.0] * len(completions)

    options = {"steps_per_generation": 2, "gradient_accumulation_steps": 4}
    made = tiny_model.trainer(
        tmp_path, some, num_iterations=epochs, max_steps=3 * epochs, **options
    )
    made.train()
    logged = [
        row["zero_gradient_steps"] for row in made.state.log_history if "zero_gradient_steps" in row
    ]
    assert logged == ([0.0, 1.0, 0.0] if epochs == 1 else [1.0, 0.0, 1.0, 1.0, 0.0, 1.0])


def test_later_steps_of_a_batch_still_have_a_zero_gradient(tmp_path: Path) -> None:
    """Micro-batches smaller than a group, two steps an epoch: from the second on rounding leaves a gradient."""
    options = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
    made = tiny_model.trainer(
        tmp_path,
        lambda completions, **_: [0.0] * len(completions),
        steps_per_generation=8,
        max_steps=8,
        score="mean",
        **options,
    )
    before = tiny_model.weights(made).clone()
    made.train()
    assert made.skip_steps.zero_gradient == 8
    assert torch.equal(tiny_model.weights(made), before)
