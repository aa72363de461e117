"""The model card: what was trained on what, how, and what it reached; text of users is shown, never obeyed."""

from __future__ import annotations

import re
from typing import Any

from tpo.llm.runs.recipe import Recipe
from tpo.options import with_mark

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
MARKUP = re.compile(r"[\\`*_\[\]<>|&~$]")
"""Characters that mean something to Markdown or HTML within a line."""


def card_text(recipe: Recipe, result: dict[str, Any]) -> str:
    """Markdown with the metadata that model hubs read."""
    library = "peft" if recipe.lora else "transformers"
    hub_name = recipe.model.partition("@")[0]
    base = f'base_model: "{hub_name}"\n' if HUB_NAME.fullmatch(hub_name) else ""
    provenance = result["provenance"]
    title = f"{_name(recipe.model)}, trained with {recipe.objective} on {_name(recipe.task)}"
    lines = [
        f"---\n{base}library_name: {library}\ntags:\n- trl\n- tpo\n- reinforcement-learning\n---",
        f"# {plain(title)}",
        "Reinforcement learning from verifiable rewards with "
        "[target policy optimization](https://arxiv.org/abs/2604.06159) (`tpo train`).",
        "## Recipe",
        _table(("option", "value"), sorted((k, code(v)) for k, v in _options(recipe).items())),
        "## Held-out prompts",
        _evaluations(result["evaluations"]),
        "## Training",
        f"{result['steps']} optimiser steps, {result['skipped_steps']} skipped (gradient not finite); "
        f"completions that could not be scored: {sum(result['reward_failures'].values())}; "
        f"{result['seconds']:.0f} seconds on {code(provenance['device'])}.",
        _table(("package", "version"), sorted(provenance["versions"].items())),
    ]
    if revisions := provenance.get("revisions"):
        lines.append(_table(("from the hub", "at"), [(k, code(v)) for k, v in revisions.items()]))
    return "\n\n".join(lines) + "\n"


def plain(text: Any) -> str:
    """Any text as Markdown that shows it, in one line."""
    return MARKUP.sub(lambda found: f"&#{ord(found.group())};", " ".join(str(text).split()))


def code(text: Any) -> str:
    """Any text as code, in one line and one cell of a table."""
    line = " ".join(str(text).split())
    return f"<code>{plain(line)}</code>" if set("`|") & set(line) else f"`{line}`"


def _options(recipe: Recipe) -> dict[str, Any]:
    """The options that are set and tell readers something; folders of this machine do not."""
    hidden = with_mark(recipe, "private")
    options = recipe.to_dict().items()
    shown = {k: v for k, v in options if k not in hidden and v not in (None, {}, "")}
    return shown | {"task": _name(recipe.task)}


def _name(model: str) -> str:
    """The last part of a model's or a task's name or path."""
    return model.rstrip("/").rpartition("/")[2]


def _evaluations(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "Not evaluated."
    k = rows[0]["k"]
    return _table(
        ("step", "greedy accuracy", "mean score of samples", f"pass@{k}", "prompts"),
        [
            (
                str(row["step"]),
                f"{row['greedy']:.1%}",
                f"{row['sampled']:.3f}",
                f"{row['pass_at_k']:.1%}",
                str(row["prompts"]),
            )
            for row in rows
        ],
    )


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
