"""What a model can do before training: whether its groups hold anything to learn from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tpo.llm.evaluation import Evaluation
from tpo.llm.recipe import Recipe
from tpo.llm.train import prepared

SHOWN = 50
"""Letters of the end of a question, and of the beginning of a completion."""
CUT = 0.2
"""A share of samples at the limit of length from which it is named."""


class Probe(NamedTuple):
    """A model before training, on held-out prompts with as many samples as a group has."""

    found: Evaluation
    recipe: Recipe

    @property
    def informative_groups(self) -> float:
        """So many of a rollout batch's groups do not score alike, on average."""
        return self.found.informative * self.recipe.prompts

    @property
    def hopeless(self) -> bool:
        """Whether no group holds anything to learn from."""
        return self.found.informative == 0

    @property
    def lines(self) -> list[str]:
        """What was found, and what follows from it, for a reader."""
        found, recipe = self.found, self.recipe
        shown = [
            f"  {_last_line(one['prompt'])!r} -> {one['completion'][:SHOWN]!r}: {one['score']:g}"
            for one in found.examples
        ]
        return [
            f"{recipe.model} on {recipe.task} before training, {found.prompts} held-out prompts, "
            f"{found.k} samples each:",
            f"  mean score {found.sampled:.3g}, greedy {found.greedy:.1%}, "
            f"pass@{found.k} {found.pass_at_k:.1%}",
            f"  informative groups {found.informative:.1%}, {self.informative_groups:.1f} of "
            f"{recipe.prompts} in a rollout batch",
            *shown,
            *self._advice(),
        ]

    def _advice(self) -> list[str]:
        found, recipe = self.found, self.recipe
        said = []
        if found.failures:
            said.append(f"{found.failures} completions could not be scored")
        if found.at_limit > CUT:
            said.append(
                f"{found.at_limit:.0%} of samples are as long as max_tokens {recipe.max_tokens} allows: "
                "they may be cut before their answer"
            )
        if self.hopeless and found.pass_at_k == 0:
            said.append(
                "nothing to learn from: no sample is right. Give easier questions, worked examples, a larger "
                "model, or a score with steps between 0 and 1"
            )
        elif self.hopeless:
            said.append(
                "nothing to learn from: all samples of a prompt score alike. Give harder questions"
            )
        elif self.informative_groups < 1:
            said.append(
                "fewer than one informative group in a rollout batch: whether a run gets going is luck. Give "
                "more prompts or a larger group_size, or easier questions among the others"
            )
        return said


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2][-SHOWN:]


def probe(recipe: Recipe) -> Probe:
    """Evaluate the recipe's model as it is; nothing is trained, and of `out` only a converted GGUF stays."""
    with TemporaryDirectory() as elsewhere:
        ready = prepared(replace(recipe, out=elsewhere), Path(recipe.out) / "base")
        try:
            return Probe(ready.evaluate(ready.scoring, recipe.group_size), recipe)
        finally:
            ready.scoring.close()
