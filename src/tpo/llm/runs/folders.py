"""What a run's or a comparison's folder holds already; read before anything heavy is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tpo.llm.comparison.plan import Plan
from tpo.llm.runs.recipe import Recipe, as_it_was, changed, is_main
from tpo.storage.files import read_json


def asked(recipe: Recipe) -> dict[str, Any]:
    """What recipe.json holds."""
    return {k: v for k, v in recipe.plain().items() if k != "out"}


def check_folder(recipe: Recipe, out: Path, resume: bool) -> None:
    """An earlier run of another recipe, or without `resume`, is left alone."""
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
    other = changed(before, asked(recipe))
    if other:
        was = as_it_was(before)
        raise ValueError(
            f"{out} was started with another {', '.join(other)} "
            f"({', '.join(repr(was.get(k)) for k in other)}): give the same, or another --out"
        )


def check_comparison(plan: Plan, resume: bool) -> list[str]:
    """An earlier comparison with another recipe, or without `resume`, is left alone.

    What it holds that the plan leaves out is returned.
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
    other += ["tune"] if now["tuning"] != before["plan"]["tuning"] else []
    if other:
        raise ValueError(
            f"{folder} holds a comparison with another {', '.join(other)}: give the same, or another --out"
        )
    left = [name for name in before["plan"]["methods"] if name not in now["methods"]]
    fewer = before["plan"]["seeds"] - plan.seeds
    return left + ([f"the last {fewer} of {before['plan']['seeds']} seeds"] if fewer > 0 else [])
