"""The objectives' pages, made from their docstrings; and the rule that every public name has one."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path
from types import ModuleType

from sphinx.application import Sphinx

import tpo
from tpo.objectives.base import Entry, entry

REQUIRED = (".. math::", "Shapes:", "Edge cases:", "Source:", "Deviates:")


def undocumented() -> list[str]:
    """Public names without a docstring, and objectives whose docstring lacks a part."""
    missing = []
    for name in tpo.__all__:
        thing = getattr(tpo, name)
        if isinstance(thing, str):
            continue
        if not inspect.getdoc(thing):
            missing.append(f"tpo.{name} has no docstring")
        if isinstance(thing, ModuleType):
            missing += [
                f"{thing.__name__}.{key} has no docstring"
                for key, member in vars(thing).items()
                if callable(member)
                and not key.startswith("_")
                and getattr(member, "__module__", None) == thing.__name__
                and not member.__doc__
            ]
    for name in tpo.list_objectives():
        doc = entry(name).make.__doc__ or ""
        missing += [f"objective {name}: no {part!r}" for part in REQUIRED if part not in doc]
    return missing


def write_pages(folder: Path) -> None:
    """One page per name, and a table of all."""
    folder.mkdir(exist_ok=True)
    for name in tpo.list_objectives():
        _write(folder / f"{name}.rst", page(name, entry(name)))
    _write(folder / "index.rst", table())


def _write(path: Path, text: str) -> None:
    """Only a page that changes is built again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def page(name: str, found: Entry) -> str:
    """Title, how to call it, the docstring, the options with their published values."""
    given = "".join(f", {key}={value!r}" for key, value in found.options.items())
    lines = [name, "=" * len(name), "", f"``tpo.objective({name!r})``", ""]
    if given:
        lines += [
            f"{found.summary} The same as ``{found.make.__name__}({given[2:]})``, which is:",
            "",
        ]
    lines += [inspect.getdoc(found.make) or "", "", "Options", "-------", ""]
    options = [f for f in fields(found.make) if f.metadata]
    made = found.make(**found.options)
    lines += [
        f"- ``{f.name}={getattr(made, f.name)!r}``: {f.metadata['accepts']}" for f in options
    ] or ["None."]
    return "\n".join([*lines, ""])


def table() -> str:
    """All objectives with what they ask for."""
    head = ("name", "in short", "family", "group", "critic", "reference", "epochs")
    lines = [
        "Objectives",
        "==========",
        "",
        "*group*: compares the candidates of a context, so K >= 2 is needed. *critic*: needs",
        "``values``. *reference*: uses ``log_probs_ref`` by default. *epochs*: made for several on one batch.",
        "",
        ".. list-table::",
        "   :header-rows: 1",
        "",
    ]
    rows = [head]
    for name in tpo.list_objectives():
        found = entry(name)
        traits = found.make.traits
        asks = (traits.group, traits.critic, traits.reference, traits.epochs)
        yes = ("yes" if asked else "" for asked in asks)
        rows.append((f":doc:`{name}`", found.summary, traits.family, *yes))
    for row in rows:
        lines += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(row)]
    lines += [
        "",
        ".. toctree::",
        "   :hidden:",
        "",
        *(f"   {name}" for name in tpo.list_objectives()),
        "",
    ]
    return "\n".join(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    missing = undocumented()
    if missing:
        raise RuntimeError("undocumented public names:\n" + "\n".join(missing))
    return {"parallel_read_safe": True}
