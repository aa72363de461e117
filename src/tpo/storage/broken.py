"""A broken file is renamed to NAME.broken, with a warning, and the rest of its folder stays usable."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Content = TypeVar("Content")


def intact(path: Path, parse: Callable[[bytes], Content], without: str) -> Content | None:
    """What `parse` makes of a file; None without one, or if it was broken and is renamed.

    without: what happens without the file, for the warning.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return parse(content)
    except Exception as error:  # a parser of damaged bytes can raise anything
        _set_aside(path, error, without)
        return None


def json_object(content: bytes) -> dict[str, Any]:
    """The JSON object in these bytes; anything else is an error."""
    found = json.loads(content)
    if not isinstance(found, dict):
        raise ValueError(f"a {type(found).__name__}, expected an object")
    return found


def _set_aside(path: Path, error: Exception, without: str) -> None:
    names = (f"{path.name}.broken{i or ''}" for i in itertools.count())
    aside = next(free for name in names if not (free := path.with_name(name)).exists())
    try:
        path.rename(aside)
        where = f"it is now {aside.name}"
    except FileNotFoundError:  # another process was faster
        return
    except OSError as refused:
        where = f"it could not be renamed ({refused.strerror})"
    reason = " ".join(str(error).split()) or type(error).__name__
    print(f"{path} is broken ({reason}): {where}, and {without}", file=sys.stderr)
