"""Names that older stores use, and the names that replaced them. Old names are read, new ones are written."""

from __future__ import annotations

from collections.abc import Mapping

ENVIRONMENT_KEYS = {"lanes": "data_parallel_size"}
"""Keys of "environment" in cell.json."""


def current_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a stored run, with its former keys replaced."""
    return {ENVIRONMENT_KEYS.get(key, key): value for key, value in environment.items()}
