"""Runs of earlier versions: what the options in their files mean today, and which may differ on a resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tpo.llm.runs.recipe import Recipe, renamed

MAY_CHANGE = (
    "out", "samples", "report_to", "scorers", "timeout", "save_every", "discard_model",
)  # fmt: skip
"""Options that a run may be resumed with another value of."""


def recorded(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a recipe as a run recorded them, under today's names.

    A run older than `skip_zero_gradient` skipped no steps.
    """
    return {"skip_zero_gradient": False, **renamed(options)}


def changed(before: Mapping[str, Any], requested: Mapping[str, Any]) -> list[str]:
    """The options that decide a run and differ from those that it was started with.

    An option that the run did not record had its default, or the value that `recorded` gives.
    """
    defaults = {f.name: f.default for f in fields(Recipe)}
    was = {**defaults, **recorded(before)}
    return [k for k in requested if requested[k] != was[k] and k not in MAY_CHANGE]
