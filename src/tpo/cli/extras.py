"""Which extra of tpo brings a module that is missing, read from the installed package itself."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires

DISTRIBUTIONS = {"sklearn": "scikit-learn", "yaml": "pyyaml", "transfer_queue": "transferqueue"}
"""Modules that are not called as what `pip install` takes."""
PREFERRED = ("lab", "llm", "verl", "ray")


def explained(error: ModuleNotFoundError, command: str) -> str:
    """The error with the command that installs what is missing; as it is where that is known or unknown."""
    extra = extra_of((error.name or "").partition(".")[0], prefer=command)
    if extra is None or "pip install" in str(error):
        return str(error)
    return f"{command} needs {error.name}: pip install 'tpo[{extra}]'"


def extra_of(module: str, prefer: str = "") -> str | None:
    """The extra that a module belongs to; of several, `prefer` or else the first of PREFERRED."""
    name = DISTRIBUTIONS.get(module, module.replace("_", "-")).lower()
    found = [extra for extra, names in extras().items() if name in names]
    return next((one for one in (prefer, *PREFERRED) if one in found), None)


def extras() -> dict[str, set[str]]:
    """The packages that each extra asks for, in lower case."""
    try:
        lines = requires("tpo") or []
    except PackageNotFoundError:
        return {}
    found: dict[str, set[str]] = {}
    for line in lines:
        extra = re.search(r"extra == ['\"](\w+)['\"]", line)
        package = re.match(r"[\w.-]+", line)
        if extra and package:
            found.setdefault(extra[1], set()).add(package[0].lower().replace("_", "-"))
    return found
