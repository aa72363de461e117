"""A folder of `tpo train` without --compare, as the plan of one method and one seed that a report takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tpo.llm.comparison.method import MethodSpec
from tpo.llm.comparison.plan import Plan, Run
from tpo.llm.runs.artifacts import RECIPE
from tpo.llm.runs.earlier_runs import recorded_options
from tpo.llm.runs.recipe import Recipe, command_flags


@dataclass(frozen=True)
class SingleRun(Plan):
    """A run that was planned alone; its files are in the folder itself."""

    trained: Recipe | None = None
    """As it was trained; `recipe` is the same with its budget in rollout batches, which curves count."""

    def __post_init__(self) -> None:
        """No check: the run was made with these options."""

    def run(self, method: MethodSpec, seed: int, tuned: MethodSpec | None = None) -> Run:
        return Run(method, self.recipe)

    @property
    def command(self) -> str:
        recipe = self.trained or self.recipe
        return f"tpo train {command_flags(recipe)} --objective {recipe.objective}"


def read_single_run(folder: Path) -> SingleRun:
    """The plan of a run's folder."""
    recorded = RECIPE.read(folder)
    if recorded is None:
        raise ValueError(f"{folder} holds no run: give the folder that tpo train --out wrote")
    recipe = Recipe(**{**recorded_options(recorded), "out": str(folder)})
    given: dict[str, Any] = {"score": recipe.score, "eta": recipe.eta, **recipe.objective_options}
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items() if v is not None}
    in_batches = replace(recipe, batches=recipe.batches or -(-recipe.steps // recipe.epochs))
    method = MethodSpec(recipe.objective, tuple(sorted(options.items())))
    return SingleRun(in_batches, (method,), trained=recipe)
