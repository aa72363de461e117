"""The model card shows what users wrote, and none of it becomes Markdown, HTML or metadata."""

from typing import Any

import pytest
import yaml

from tpo.llm.runs.model_card import card_text, code, plain
from tpo.llm.runs.recipe import Recipe

EVIL = "x`|</td><script>alert(1)</script>\n---\nlicense: mit\n\n# [a](http://b) ![c](d) *e* _f_ ~g~ &lt; \\| $h$"


def _card(**changes: Any) -> str:
    recipe = Recipe(**{"model": "org/name", "task": "task.jsonl", **changes})
    row = {"step": 0, "greedy": 0.5, "sampled": 0.5, "pass_at_k": 0.5, "k": 8, "prompts": 4}
    provenance = {"device": EVIL, "versions": {"tpo": "1"}, "revisions": {"model": EVIL}}
    return card_text(
        recipe,
        {"evaluations": [row], "steps": 1, "skipped_steps": 0, "reward_failures": {}, "seconds": 1.0,
         "provenance": provenance},
    )  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"model": EVIL},
        {"model": f"org/{EVIL}"},
        {"model": "org/name\nlicense: mit"},
        {"task": f"{EVIL}.jsonl"},
        {"hint": EVIL, "scorer": EVIL},
        {"task_options": {EVIL: EVIL}, "trl": {"run_name": EVIL}},
    ],
)
def test_text_of_users_is_shown_and_not_obeyed(changes: dict[str, Any]) -> None:
    card = _card(**changes)
    _, metadata, body = card.split("---\n", 2)
    assert set(yaml.safe_load(metadata)) <= {"base_model", "library_name", "tags"}
    for markup in ("<script", "</td>", "[a](", "![c]", "*e*", "license: mit\n", "\n---\n"):
        assert markup not in body.replace("`x", "")
    tables = [line for line in body.splitlines() if line.startswith("|")]
    for line in tables:
        assert line.count("|") in (3, 6)
    assert sum(line.startswith("#") for line in body.splitlines()) == 4


def test_metadata_names_a_base_model_of_the_hub_without_its_revision() -> None:
    for model, base in (
        ("org/name", "org/name"),
        ("org/name@v1", "org/name"),
        ("./a", None),
        ("/a/b", None),
    ):
        metadata = yaml.safe_load(_card(model=model).split("---\n")[1])
        assert metadata.get("base_model") == base


def test_usual_text_stays_readable() -> None:
    assert plain("Qwen3-1.7B, trained with tpo on gsm8k") == "Qwen3-1.7B, trained with tpo on gsm8k"
    assert code({"a": 1}) == "`{'a': 1}`"
    assert code("a|b`c") == "<code>a&#124;b&#96;c</code>"
