"""The objectives' pages, their table and the paper index; and the rule that every public name is documented."""

from __future__ import annotations

import csv
import inspect
import re
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import _push
import _symbols
from sphinx.application import Sphinx

import tpo
from tpo.objectives.base import Entry, entry, label

REQUIRED = (".. math::", "Shapes:", "Edge cases:", "Source:", "Deviates:")
ENGINES = {"trl": "TRL", "verl": "verl", "skyrl": "SkyRL", "prime_rl": "prime-rl", "slime": "slime"}
FIELD = Path(__file__).parent / "_field.csv"
"""Per objective: its full title, and what other libraries call it."""
ELSEWHERE = Path(__file__).parent / "_elsewhere.csv"
"""What other libraries have and this one has not."""
WIDTHS = "40 60"
"""Of the columns of the paper index."""


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
    missing += _symbols.missing([entry(name).make for name in tpo.list_objectives()])
    missing += [f"objective {name}: no row in {FIELD.name}" for name in _unlisted()]
    return missing


def _unlisted() -> list[str]:
    return [name for name in tpo.list_objectives() if name not in field()]


def field() -> dict[str, dict[str, str]]:
    """The rows of `_field.csv` by objective."""
    return {row["name"]: row for row in read(FIELD)}


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a table."""
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_pages(folder: Path) -> None:
    """One page and one figure per name, a table of all, and the paper index."""
    folder.mkdir(exist_ok=True)
    rows = field()
    for name in tpo.list_objectives():
        _write(folder / f"{name}.svg", _push.figure(name).svg())
        _write(folder / f"{name}.rst", page(name, entry(name), rows[name]))
    _write(folder / "index.rst", table())
    _write(folder / "papers.rst", papers(rows))


def _write(path: Path, text: str) -> None:
    """Only a page that changes is built again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def page(name: str, found: Entry, row: dict[str, str]) -> str:
    """Title, how to call it, equation with its symbols, picture, the rest of the docstring, options."""
    doc = inspect.getdoc(found.make) or ""
    summary, math, *rest = doc.split("\n\n")
    lines = [*title(name, row["title"]), f"``tpo.objective({name!r})``", ""]
    if found.options:
        given = ", ".join(f"{key}={value!r}" for key, value in found.options.items())
        lines += [
            found.summary,
            "",
            f"The same as ``{found.make.__name__}({given})``, which is:",
            "",
        ]
    lines += [summary, "", math, *_symbols.table(found.make.__name__, math)]
    lines += picture(name)
    lines += [linked(bold(paragraph)) + "\n" for paragraph in rest]
    return "\n".join([*lines, *elsewhere(row), *options(found), ""])


def title(name: str, long: str) -> list[str]:
    """`Group Relative Policy Optimization (GRPO)`"""
    short = label(name)
    text = long if short in long else f"{long} ({short})"
    return [text, "=" * len(text), ""]


def picture(name: str) -> list[str]:
    """What the gradient does with the standard group."""
    return [
        f".. figure:: {name}.svg",
        f"   :alt: {_push.as_text(name)}",
        "",
        "   The push on :ref:`the standard group <standard-group>`: six candidates with score s and rollout",
        "   probability p. Above 0, the update raises the candidate's log-probability.",
        "",
    ]


def bold(paragraph: str) -> str:
    """The name of a docstring's part in bold, `Edge cases:`."""
    return re.sub(r"^(Shapes|Edge cases|Source|Deviates):", r"**\1.**", paragraph)


def linked(text: str) -> str:
    """arXiv numbers as links."""
    return re.sub(r"arXiv (\d{4}\.\d{5})", r"`arXiv \1 <https://arxiv.org/abs/\1>`__", text)


def elsewhere(row: dict[str, str]) -> list[str]:
    """What other libraries call it."""
    named = [f"- {engine}: ``{row[key]}``" for key, engine in ENGINES.items() if row[key]]
    if not named and not row["note"]:
        return []
    note = f"{row['note'][0].upper()}{row['note'][1:]}." if row["note"] else ""
    return ["In other libraries", "------------------", "", *named, "", note, ""]


def options(found: Entry) -> list[str]:
    """The options with their published values."""
    made = found.make(**found.options)
    listed = [
        f"- ``{f.name}={getattr(made, f.name)!r}``: {f.metadata['kind'].accepts}"
        for f in fields(found.make)
        if f.metadata
    ]
    return ["Options", "-------", "", *(listed or ["None."])]


def list_table(
    head: tuple[str, ...], rows: list[tuple[str, ...]], widths: str = "auto"
) -> list[str]:
    """An rst table that scrolls by itself where it is wide; with `widths` its cells wrap."""
    kind = [] if widths == "auto" else ["   :class: wrapped"]
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", *kind, ""]
    for row in (head, *rows):
        lines += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(row)]
    return [*lines, ""]


def table() -> str:
    """All objectives with what they ask for, read from their traits: the paper's Table 4."""
    rows = []
    for name in tpo.list_objectives():
        found = entry(name)
        traits = found.make.traits
        asks = (
            *(traits.group, traits.critic, traits.reference, traits.epochs),
            *(traits.tokens, traits.behaviour, traits.kl),
        )
        yes = ("yes" if asked else "" for asked in asks)
        link = f":doc:`{label(name)} <{name}>` ``{name}``"
        rows.append((link, found.summary, traits.family, *yes))
    head = (
        *("objective", "in short", "family", "group", "critic", "reference", "epochs"),
        *("tokens", "sampler", "KL"),
    )
    lines = [
        *OBJECTIVES_INTRODUCTION,
        *list_table(head, rows, "14 34 10 7 7 10 8 8 9 5"),
        *TABLE_4_DIFFERENCES,
        *standard_group(),
        ".. toctree::",
        "   :hidden:",
        "",
        *(f"   {label(name)} <{name}>" for name in tpo.list_objectives()),
        "",
    ]
    return "\n".join(lines)


OBJECTIVES_INTRODUCTION = (
    "Objectives",
    "==========",
    "",
    "Every objective, and what it asks for. The columns are read from the code's ``traits``. This is the TPO",
    "paper's Table 4 for all objectives of the library.",
    "",
    "- *group*: compares the candidates of a context, so K is at least 2.",
    "- *critic*: needs ``values``.",
    "- *reference*: uses ``log_probs_ref`` by default, or by an option other than ``beta``.",
    "- *epochs*: made for several epochs per batch (TRL's ``num_iterations``).",
    "- *tokens*: needs the log-prob of every token, by default or by an option.",
    "- *sampler*: uses ``log_probs_rollout``, the sampling engine's log-probs, where they are given.",
    "- *KL*: has a KL to the reference of its own, weighted by ``beta``.",
    "",
)

TABLE_4_DIFFERENCES = (
    "Four cells differ from the paper's table. ReMax has a reference with ``beta`` alone, AWR and MPO (V-MPO)",
    "have no critic, and GRPO is listed with its reference.",
    "",
)


def standard_group() -> list[str]:
    """The group that every page draws, as a table."""
    rows = [
        (f"{s:g}", f"{old:g}", f"{moved:g}")
        for s, old, moved in zip(_push.SCORES, _push.P_OLD, _push.P_MOVED, strict=True)
    ]
    head = ("score", "probability at rollout", "after an update")
    return [
        ".. _standard-group:",
        "",
        "The standard group",
        "------------------",
        "",
        "Every page shows what its objective does with one group: six candidates of one token each. The update",
        "has moved two candidates within ±20% of their rollout probability, and three beyond.",
        f"A critic says {_push.CRITIC:g}, and the greedy answer scores {_push.GREEDY:g}.",
        "",
        *list_table(head, rows),
    ]


def papers(rows: dict[str, dict[str, str]]) -> str:
    """One row per objective: its paper, and what each library calls it."""
    elsewhere = sorted(
        (name for name, row in rows.items() if called(row)), key=lambda name: -libraries(rows[name])
    )
    named = [(in_lines(*cited(name, rows[name])), called(rows[name])) for name in elsewhere]
    only_here = [cited(name, row) for name, row in rows.items() if name not in elsewhere]
    only_there = [
        (in_lines(row["title"], *arxiv(row["paper"])), called(row)) for row in read(ELSEWHERE)
    ]
    notes = [f"- ``{name}``: {row['note']}" for name, row in rows.items() if row["note"]]
    parts = [
        *PAPERS_INTRODUCTION,
        *list_table(("objective", "elsewhere"), named, WIDTHS),
        *heading("Where the same name differs"),
        *notes,
        "",
        *heading("In none of the five"),
        *list_table(("objective", "paper"), only_here, "50 50"),
        *heading("There, and not here"),
        *list_table(("method", "elsewhere"), only_there, WIDTHS),
    ]
    return "\n".join(parts)


def cited(name: str, row: dict[str, str]) -> tuple[str, str]:
    """An objective with a link to its page, and its source."""
    doc = inspect.getdoc(entry(name).make) or ""
    source = " ".join(doc.partition("Source:")[2].partition("\n\n")[0].split())
    return f":doc:`{row['title']} <{name}>` ``{name}``", linked(source)


def libraries(row: dict[str, str]) -> int:
    """How many of the libraries have a method."""
    return sum(bool(row[key]) for key in ENGINES)


def called(row: dict[str, str]) -> str:
    """What each library that has a method calls it, a line each."""
    named = (f"{engine}: {written(row[key])}" for key, engine in ENGINES.items() if row[key])
    return in_lines(*named)


def in_lines(*parts: str) -> str:
    """A cell with a line for each part."""
    return "\n       ".join(f"| {part}" for part in parts)


def arxiv(number: str) -> list[str]:
    """A paper by its number, if it has one."""
    return [linked(f"arXiv {number}")] if number else []


def written(option: str) -> str:
    """What one writes elsewhere: a call, or options one by one."""
    parts = [option] if "(" in option else option.split(", ")
    return ", ".join(f"``{part}``" for part in parts)


def heading(text: str) -> list[str]:
    """A section's title."""
    return [text, "-" * len(text), ""]


PAPERS_INTRODUCTION = (
    "Paper index",
    "===========",
    "",
    "Find a method by its paper, or by the option that selects it in another library.",
    "",
    "Read from TRL 1.16, verl (2026-08-22), and SkyRL, prime-rl and slime of 2026-08-21. verl's options are",
    "below ``algorithm`` and ``actor_rollout_ref.actor``, SkyRL's below ``trainer.algorithm``,",
    "prime-rl's below ``orchestrator.algo`` unless said.",
    "",
)


def setup(app: Sphinx) -> dict[str, bool]:
    missing = undocumented()
    if missing:
        raise RuntimeError("undocumented public names:\n" + "\n".join(missing))
    return {"parallel_read_safe": True}
