"""Runs of earlier versions: their options under today's names, and which options a resume may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpo.llm.runs.recipe import Recipe, with_current_names
from tpo.options import declared, with_mark


def recorded_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a recipe as a run recorded them, under today's names.

    A run older than `skip_zero_gradient` skipped no steps.
    """
    return {"skip_zero_gradient": False, **with_current_names(options)}


def changed_options(before: Mapping[str, Any], requested: Mapping[str, Any]) -> list[str]:
    """The options that differ from those that a run was started with, but for those that may change.

    An option that the run did not record had its default, or the value that `recorded_options` gives.
    """
    earlier = {k: f.default for k, f in declared(Recipe).items()} | recorded_options(before)
    may_change = with_mark(Recipe, "may_change")
    return [k for k in requested if requested[k] != earlier[k] and k not in may_change]
