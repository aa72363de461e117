"""What a model can do before training: whether its groups hold anything to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tpo.llm.runs.evaluation import Evaluation
from tpo.llm.runs.launch import processes
from tpo.llm.runs.recipe import Recipe
from tpo.llm.runs.train import get_ready

SHOWN = 30
"""Characters at either end of a question, and of a completion."""
CUT = 0.2
"""A share of truncated samples from which it is named."""


class Probe(NamedTuple):
    """A model before training, on held-out prompts with as many samples as a group has."""

    recipe: Recipe
    found: Evaluation
    questions: Sequence[str]
    """of the examples"""

    @property
    def informative_groups(self) -> float:
        """So many of a rollout batch's groups do not score alike, on average."""
        return self.found.informative * self.recipe.prompts

    @property
    def lines(self) -> list[str]:
        """What was found, and what follows from it, for a reader."""
        found, recipe = self.found, self.recipe
        shown = [
            f"  {_short(question)!r} -> {_short(one['completion'])!r}: {_told(one['score'])}"
            for question, one in zip(self.questions, found.examples, strict=False)
        ]
        return [
            f"{recipe.model} on {recipe.task} before training, {found.prompts} held-out prompts, "
            f"{found.k} samples each:",
            f"  mean score {found.sampled:.3g}, greedy {found.greedy:.1%}, "
            f"pass@{found.k} {found.pass_at_k:.1%}",
            f"  informative groups {found.informative:.1%}, {self.informative_groups:.1f} of "
            f"{recipe.prompts} in a rollout batch",
            *(["  greedily:", *shown] if shown else []),
            *self._advice(),
        ]

    def _advice(self) -> list[str]:
        found = self.found
        tried, said = found.prompts * (found.k + 1), []  # greedily too
        if found.failures:
            said.append(f"{found.failures} of {tried} completions could not be scored")
        if found.truncated > CUT:
            said.append(
                f"{found.truncated:.0%} of samples reach the limit of length (--max-tokens)"
            )
        if found.informative == 0:
            said.append(
                f"nothing to learn from in any of {found.prompts} groups: {self._reason(tried)}"
            )
        elif self.informative_groups < 1:
            said.append(
                "fewer than one informative group in a rollout batch: whether a run gets going is luck. Give "
                "more prompts or a larger group_size, or easier questions among the others"
            )
        if found.informative > 0 and found.pass_at_k == 0:
            said.append(
                "groups are informative only through partial credit: no sample reached success (a score above "
                f"{self.recipe.trl.get('success', 0.5):g}), so pass@{found.k} says nothing. Look at what the "
                "partial score pays for, or give easier questions"
            )
        return said

    def _reason(self, tried: int) -> str:
        """Why no group is informative, and what to do."""
        found = self.found
        if 2 * found.failures > tried:
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
    """Evaluate the recipe's model as it is; nothing is trained, and of `out` only a converted GGUF stays."""
    if processes() > 1:
        raise ValueError(f"a probe takes one process, not {processes()}: start it without torchrun")
    with TemporaryDirectory() as elsewhere:
        trl = {k: v for k, v in recipe.trl.items() if k != "output_dir"}
        plain = replace(recipe, out=elsewhere, trl=trl, vllm=False, beta=0.0, report_to="none")
        ready = get_ready(plain, Path(recipe.out) / "base")
        try:
            found = ready.evaluate(
                ready.scoring, ready.trainer.args.num_generations, seed=recipe.seed
            )
        finally:
            ready.scoring.close()
    prompts = ready.task.held_out["prompt"][: len(found.examples)]
    return Probe(recipe, found, list(map(_question, prompts)))


def _short(text: str) -> str:
    """Both ends of a long text."""
    return text if len(text) <= 2 * SHOWN else f"{text[:SHOWN]} ... {text[-SHOWN:]}"


def _told(score: float | None) -> str:
    return "not scored" if score is None else f"{score:g}"


def _question(prompt: Any) -> str:
    """What is asked last."""
    return prompt if isinstance(prompt, str) else str(prompt[-1]["content"])
