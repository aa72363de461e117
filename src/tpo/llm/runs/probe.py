"""What a model can do before training: whether its groups are informative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tpo.llm.runs.evaluation import Evaluation
from tpo.llm.runs.launch import processes
from tpo.llm.runs.recipe import Recipe
from tpo.llm.runs.train import prepare_training

SHOWN_CHARACTERS = 30
"""Of a long question or completion, this many characters at either end are shown."""
MANY_TRUNCATED = 0.2
"""A larger share of truncated samples is reported."""


class Probe(NamedTuple):
    """A model before training, on held-out prompts with as many samples as a group has."""

    recipe: Recipe
    evaluation: Evaluation
    questions: Sequence[str]
    """of the evaluation's examples"""

    @property
    def informative_groups(self) -> float:
        """The number of informative groups in a rollout batch, on average."""
        return self.evaluation.informative * self.recipe.prompts

    @property
    def lines(self) -> list[str]:
        """What was measured, and what follows from it, as `tpo train --probe` prints it."""
        found, recipe = self.evaluation, self.recipe
        examples = [
            f"  {_shortened(question)!r} -> {_shortened(example['completion'])!r}: "
            + ("not scored" if example["score"] is None else f"{example['score']:g}")
            for question, example in zip(self.questions, found.examples, strict=False)
        ]
        return [
            f"{recipe.model} on {recipe.task} before training, {found.prompts} held-out prompts, "
            f"{found.k} samples each:",
            f"  mean score {found.sampled:.3g}, greedy {found.greedy:.1%}, "
            f"pass@{found.k} {found.pass_at_k:.1%}",
            f"  informative groups {found.informative:.1%}, {self.informative_groups:.1f} of "
            f"{recipe.prompts} in a rollout batch",
            *(["  greedily:", *examples] if examples else []),
            *self._advice(),
        ]

    def _advice(self) -> list[str]:
        found, advice = self.evaluation, []
        completions = found.prompts * (found.k + 1)  # k samples and a greedy one
        if found.failures:
            advice.append(f"{found.failures} of {completions} completions could not be scored")
        if found.truncated > MANY_TRUNCATED:
            advice.append(f"{found.truncated:.0%} of samples reach the token limit (--max-tokens)")
        if found.informative == 0:
            advice.append(
                f"nothing to learn from in any of {found.prompts} groups: {self._reason(completions)}"
            )
        elif self.informative_groups < 1:
            advice.append(
                "fewer than one informative group in a rollout batch: whether a run gets going is luck. Give "
                "more prompts or a larger group_size, or easier questions among the others"
            )
        if found.informative > 0 and found.pass_at_k == 0:
            advice.append(
                "groups are informative only through partial credit: no sample reached success (a score above "
                f"{self.recipe.trl.get('success', 0.5):g}), so pass@{found.k} says nothing. Look at what the "
                "partial score pays for, or give easier questions"
            )
        return advice

    def _reason(self, completions: int) -> str:
        """Why no group is informative, and what to do."""
        found = self.evaluation
        if 2 * found.failures > completions:
            return "fix the scorer"
        if found.truncated > 0.5:
            return "most samples are truncated. Give a larger --max-tokens"
        if found.pass_at_k == 0 and found.greedy > 0:
            return "no sample is right, though greedy answers are. Give a lower --temperature"
        if found.pass_at_k == 0 and found.sampled <= 0:
            return (
                "no sample is right. Give easier questions, worked examples, a larger model, or a score with "
                "steps between right and wrong"
            )
        if found.pass_at_k == 1:
            return "all samples are right. Give harder questions"
        return (
            "all samples of a prompt score alike. Give questions between those that always and never succeed, "
            "a larger group_size, or a higher temperature"
        )


def probe(recipe: Recipe) -> Probe:
    """Evaluate the recipe's model without training it. In `out` only a converted GGUF file is left, if any."""
    if processes() > 1:
        raise ValueError(f"a probe takes one process, not {processes()}: start it without torchrun")
    with TemporaryDirectory() as scratch:
        trl = {k: v for k, v in recipe.trl.items() if k != "output_dir"}
        plain = replace(recipe, out=scratch, trl=trl, vllm=False, beta=0.0, report_to="none")
        setup = prepare_training(plain, Path(recipe.out) / "base")
        try:
            k = setup.trainer.args.num_generations
            evaluation = setup.evaluate(setup.scoring, k, seed=recipe.seed)
        finally:
            setup.scoring.close()
    prompts = setup.task.held_out["prompt"][: len(evaluation.examples)]
    return Probe(recipe, evaluation, list(map(_question, prompts)))


def _shortened(text: str) -> str:
    """Both ends of a long text."""
    n = SHOWN_CHARACTERS
    return text if len(text) <= 2 * n else f"{text[:n]} ... {text[-n:]}"


def _question(prompt: Any) -> str:
    """The last message of a prompt."""
    return prompt if isinstance(prompt, str) else str(prompt[-1]["content"])
