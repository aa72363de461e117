"""Checks of the folder of a run or a comparison, before anything heavy is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tpo.llm.comparison.plan import Plan
from tpo.llm.comparison.tuning import tuning
from tpo.llm.runs.earlier_runs import changed, recorded
from tpo.llm.runs.launch import is_main
from tpo.llm.runs.recipe import Recipe
from tpo.storage.files import read_json
from tpo.storage.former_names import current_method


def recipe_json(recipe: Recipe) -> dict[str, Any]:
    """The content of recipe.json."""
    return {k: v for k, v in recipe.plain().items() if k != "out"}


def check_folder(recipe: Recipe, out: Path, resume: bool) -> None:
    """Refuse a folder with a run of another recipe, or with any run unless `resume` is set."""
    if (out / "comparison.json").exists():
        raise ValueError(
            f"{out} holds a comparison: choose another --out for a single run, or add --compare"
        )
    before = read_json(out / "recipe.json")
    if before is None:
        if resume:
            raise ValueError(
                f"--resume, but {out} holds no run: leave --resume out, or give its --out"
            )
        return
    if not resume:
        raise ValueError(
            f"{out} holds a run already: add --resume to go on, or choose another --out"
        )
    other = changed(before, recipe_json(recipe))
    if other:
        was = recorded(before)
        raise ValueError(
            f"{out} was started with another {', '.join(other)} "
            f"({', '.join(repr(was.get(k)) for k in other)}): give the same, or another --out"
        )


def check_comparison(plan: Plan, resume: bool) -> list[str]:
    """Refuse a folder with another comparison, or with any comparison unless `resume` is set.

    Returns the methods and seeds that the folder holds and the plan leaves out.
    """
    if not is_main():
        return []
    folder = plan.folder
    if (folder / "recipe.json").exists():
        raise ValueError(f"{folder} holds a single run: choose another --out for a comparison")
    before = read_json(folder / "comparison.json")
    if before is None:
        if resume:
            raise ValueError(
                f"--resume, but {folder} holds no comparison: leave --resume out, or give its --out"
            )
        return []
    if not resume:
        raise ValueError(
            f"{folder} holds a comparison already: add --resume to go on, or choose another --out"
        )
    now = plan.plain()
    other = changed(before["plan"]["recipe"], now["recipe"])
    other += ["tune"] if tuning(before["plan"]["tuning"]) != plan.tuning else []
    if other:
        raise ValueError(
            f"{folder} holds a comparison with another {', '.join(other)}: give the same, or another --out"
        )
    earlier = [current_method(name) for name in before["plan"]["methods"]]
    left = [name for name in earlier if name not in now["methods"]]
    fewer = before["plan"]["seeds"] - plan.seeds
    return left + ([f"the last {fewer} of {before['plan']['seeds']} seeds"] if fewer > 0 else [])
