"""The model card: what was trained on what, how, and what it reached; every number from the run itself."""

from __future__ import annotations

from typing import Any

from tpo.llm.runs.recipe import Recipe


def card_text(recipe: Recipe, result: dict[str, Any]) -> str:
    """Markdown with the metadata that model hubs read."""
    library = "peft" if recipe.lora else "transformers"
    base = (
        f"base_model: {recipe.model}\n"
        if "/" in recipe.model and recipe.model[0] not in "/."
        else ""
    )
    lines = [
        f"---\n{base}library_name: {library}\ntags:\n- trl\n- tpo\n- reinforcement-learning\n---",
        f"# {_name(recipe.model)}, trained with {recipe.objective} on {_name(recipe.task)}",
        "Reinforcement learning from verifiable rewards with "
        "[target policy optimization](https://arxiv.org/abs/2604.06159) (`tpo train`).",
        "## Recipe",
        _table(("option", "value"), sorted((k, f"`{v}`") for k, v in _options(recipe).items())),
        "## Held-out prompts",
        _evaluations(result["evaluations"]),
        "## Training",
        f"{result['steps']} optimiser steps, {result['skipped_steps']} skipped (gradient not finite); "
        f"completions that could not be scored: {sum(result['reward_failures'].values())}; "
        f"{result['seconds']:.0f} seconds on `{result['provenance']['device']}`.",
        _table(("package", "version"), sorted(result["provenance"]["versions"].items())),
    ]
    return "\n\n".join(lines) + "\n"


def _options(recipe: Recipe) -> dict[str, Any]:
    """The options that are set and tell readers something; folders of this machine do not."""
    hidden = ("out", "model", "report_to", "samples", "scorers", "cpu", "discard_model")
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
