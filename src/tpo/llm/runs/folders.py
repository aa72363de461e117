"""Checks of the folder of a run or a comparison, before anything heavy is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tpo.llm.comparison.plan import COMPARISON, Plan
from tpo.llm.comparison.tuning import read_tuning
from tpo.llm.runs.artifacts import MICRO_BATCH, RECIPE, RESULT, REVISIONS, read_lines
from tpo.llm.runs.earlier_runs import changed_options, recorded_options
from tpo.llm.runs.launch import is_main
from tpo.llm.runs.recipe import Recipe
from tpo.storage.former_names import current_method


def recipe_json(recipe: Recipe) -> dict[str, Any]:
    """The content of recipe.json."""
    return {k: v for k, v in recipe.to_dict().items() if k != "out"}


def check_folder(recipe: Recipe, out: Path, resume: bool) -> None:
    """Refuse a folder with a run of another recipe, or with any run unless `resume` is set."""
    _check_no_file(out)
    if (out / "comparison.json").exists():
        raise ValueError(
            f"{out} holds a comparison: choose another --out for a single run, or add --compare"
        )
    if not (out / RECIPE.name).exists():
        if resume:
            raise ValueError(
                f"--resume, but {out} holds no run: leave --resume out, or give its --out"
            )
        if (out / RESULT.name).exists():
            raise ValueError(
                f"{out} holds {RESULT.name} without {RECIPE.name}: restore that, or choose another --out"
            )
        return
    if not resume:
        raise ValueError(
            f"{out} holds a run already: add --resume to continue it, or choose another --out"
        )
    before = RECIPE.read(out) or {}
    check_readable(out)
    differing = changed_options(before, recipe_json(recipe))
    if differing:
        earlier = recorded_options(before)
        raise ValueError(
            f"{out} was started with another {', '.join(differing)} "
            f"({', '.join(repr(earlier.get(k)) for k in differing)}): give the same, or another --out"
        )


def check_readable(out: Path) -> None:
    """A broken file that a resume reads is an error here, before anything heavy is imported."""
    if RESULT.read(out) is None:
        MICRO_BATCH.read(out)
        REVISIONS.read(out)
        for name in ("log.jsonl", "evaluations.jsonl"):
            read_lines(out / name)


def _check_no_file(out: Path) -> None:
    """A file in the place of a folder is an error here, before anything heavy is imported."""
    for path in (out, *out.parents):
        if path.is_file():
            raise ValueError(f"--out is {out}, and {path} is a file: give a folder")


def check_comparison(plan: Plan, resume: bool) -> list[str]:
    """Refuse a folder with another comparison, or with any comparison unless `resume` is set.

    Returns the methods and seeds that the folder holds and the plan leaves out.
    """
    if not is_main():
        return []
    folder = plan.folder
    _check_no_file(folder)
    if (folder / "recipe.json").exists():
        raise ValueError(f"{folder} holds a single run: choose another --out for a comparison")
    if not (folder / COMPARISON.name).exists():
        if resume:
            raise ValueError(
                f"--resume, but {folder} holds no comparison: leave --resume out, or give its --out"
            )
        return []
    if not resume:
        raise ValueError(
            f"{folder} holds a comparison already: add --resume to continue it, or choose another --out"
        )
    before = COMPARISON.read(folder) or {}
    earlier, requested = before["plan"], plan.to_dict()
    differing = changed_options(earlier["recipe"], requested["recipe"])
    differing += ["tune"] if read_tuning(earlier["tuning"]) != plan.tuning else []
    if differing:
        raise ValueError(
            f"{folder} holds a comparison with another {', '.join(differing)}: give the same, or another --out"
        )
    earlier_methods = [current_method(name) for name in earlier["methods"]]
    left_out = [name for name in earlier_methods if name not in requested["methods"]]
    fewer = earlier["seeds"] - plan.seeds
    return left_out + ([f"the last {fewer} of {earlier['seeds']} seeds"] if fewer > 0 else [])
