"""Which extra of tpo installs a missing module, according to the metadata of the installed package."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires

DISTRIBUTIONS = {"sklearn": "scikit-learn", "yaml": "pyyaml", "transfer_queue": "transferqueue"}
"""Modules whose package on PyPI has another name."""
PREFERRED = ("lab", "llm", "verl", "ray")
"""If several extras have a module, the first of these is suggested."""


def explained(error: ModuleNotFoundError, command: str) -> str:
    """The error message, with the command that installs the module if an extra has it."""
    extra = extra_of((error.name or "").partition(".")[0], prefer=command)
    if extra is None or "pip install" in str(error):
        return str(error)
    return f"{command} needs {error.name}: pip install 'tpo[{extra}]'"


def extra_of(module: str, prefer: str = "") -> str | None:
    """The extra that installs a module: `prefer` if it does, else the first of PREFERRED."""
    name = DISTRIBUTIONS.get(module, module.replace("_", "-")).lower()
    found = [extra for extra, names in extras().items() if name in names]
    return next((one for one in (prefer, *PREFERRED) if one in found), None)


def extras() -> dict[str, set[str]]:
    """The packages of each extra, in lower case."""
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
