"""The course in docs/learn has one form: each chapter states a law that is a test, and leads to the next."""

import json
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tpo
from support import ROOT

LEARN = ROOT / "docs/learn"
CHAPTERS = sorted(LEARN.glob("[0-9]*.md"))
LAWS = {
    name
    for path in (ROOT / "tests/objectives").glob("test_*.py")
    for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
}
PRESETS = ROOT / "src/tpo/reports/html/assets/presets.json"


def links(text: str) -> list[str]:
    """The chapters that a page links to, without duplicates, in order."""
    return list(dict.fromkeys(re.findall(r"\]\((\d\d-[\w-]+)\)", text)))


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
def test_a_chapter_names_tests_that_exist_and_an_exercise_with_a_check(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    exercise = text.partition("## Exercise")[2].partition("## The law")[0]
    assert "Show a solution" in exercise
    assert re.search(r"^ *assert ", exercise, re.MULTILINE)
    law = text.partition("## The law")[2]
    named = re.findall(r"`(test_\w+)`", law)
    assert named
    assert set(named) <= LAWS


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
def test_a_chapter_links_to_presets_of_the_playground(path: Path) -> None:
    named = re.findall(r'playground\.html#preset=([\w-]+)"', path.read_text(encoding="utf-8"))
    known = {preset["name"] for preset in json.loads(PRESETS.read_text(encoding="utf-8"))}
    assert named
    assert set(named) <= known


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
def test_a_chapter_draws_a_figure(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.search(r"^(lines|bars|side_by_side)\(", text, re.MULTILINE)


def test_chapters_are_numbered_in_order_and_lead_back_and_to_the_next() -> None:
    names = [path.stem for path in CHAPTERS]
    assert [int(name[:2]) for name in names] == list(range(1, len(names) + 1))
    assert links((LEARN / "index.md").read_text(encoding="utf-8")) == names
    for i, path in enumerate(CHAPTERS):
        ending = path.read_text(encoding="utf-8").partition("## The law")[2]
        assert links(ending) == names[max(0, i - 1) : i] + names[i + 1 : i + 2]


def run(chapter: str) -> dict[str, Any]:
    """What the cells of a chapter define."""
    text = (LEARN / f"{chapter}.md").read_text(encoding="utf-8")
    found: dict[str, Any] = {}
    for cell in re.findall(r"^```\{code-cell\}\n(?:---\n.*?---\n)?(.*?)^```", text, re.S | re.M):
        exec(cell, found)
    return found


def descend(name: str, p: np.ndarray, scores: list[float], rate: float, **options: Any) -> Any:
    """[300, K] the policy at each step on the logits, with the Jacobian of log-softmax written out."""
    objective = tpo.objective(name, **options)
    groups = tpo.Groups(
        log_probs_old=np.log(p)[None, :, None], scores=np.array([scores], dtype=float)
    )
    prepared, path = objective.prepare(groups), [p]
    for _ in range(299):
        c = objective.coefficients(np.log(path[-1])[None, :, None], prepared)[0, :, 0]
        moved = np.log(path[-1]) - rate * c @ (np.eye(len(p)) - path[-1])
        path.append(np.exp(moved) / np.exp(moved).sum())
    return np.array(path)


def test_the_steps_of_dg_go_through_the_softmax() -> None:
    found = run("11-dg")["paths"]["DG"]
    expected = descend("dg", np.array([0.72, 0.144, 0.12, 0.016]), [0, 1, 1, 0], 0.3, advantage="z")
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert found[20, 3] > found[0, 3] > found[-1, 3] > 0.005


def test_the_steps_of_grpo_go_through_the_softmax() -> None:
    found = np.exp(run("12-tpo")["methods"]["GRPO, no KL"])
    start = np.array([0.4, 0.3, 0.2, 0.1])
    expected = descend("grpo_no_kl", start, [0, 1, 0, 0], 0.1, granularity="sequence")
    np.testing.assert_allclose(found, expected[: len(found)], rtol=1e-9)


@pytest.fixture(scope="module")
def notebook() -> Callable[[str], Any]:
    for library in ("sphinx", "jupytext"):
        pytest.importorskip(library, reason="the documentation's tools are not installed")
    return runpy.run_path(str(ROOT / "docs/_notebooks.py"))["notebook"]


def addresses(text: str) -> list[str]:
    """What a page's links lead to, in Markdown and in HTML."""
    return re.findall(r"""\]\(([^()\s]+)\)|\shref=["']([^"']+)""", text)


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
def test_every_link_of_a_notebook_leads_somewhere_from_a_folder_of_notebooks(
    path: Path, notebook: Callable[[str], Any]
) -> None:
    text = path.read_text(encoding="utf-8")
    cells = [cell.source for cell in notebook(text).cells if cell.cell_type != "code"]
    beside = {f"{chapter.stem}.ipynb" for chapter in CHAPTERS}
    for address in map("".join, addresses("\n".join(cells))):
        assert address in beside or address.startswith("https://"), address
    assert "playground.html" not in "".join(cells)
    for names in re.findall(r'<a\s+href="playground[^>]*>([^<]+)</a>', text):
        assert names in "\n".join(cells), "the words of a link are kept"


def test_links_of_a_notebook_keep_their_words_and_code_is_left_alone(
    notebook: Callable[[str], Any],
) -> None:
    page = """---
file_format: mystnb
---
# Title
[study](../research/studies/x), [the course](index), [next](02-states), [paper](https://arxiv.org/abs/1)
and <a
href="playground.html#preset=x">the playground</a>, $E[x](y)$ apart.

```{code-cell}
table = [abs](-1)
```
"""
    prose, code = notebook(page).cells
    expected = """# Title
study, the course, [next](02-states.ipynb), [paper](https://arxiv.org/abs/1)
and the playground, $E[x](y)$ apart."""
    assert prose.source == expected
    assert code.source == "table = [abs](-1)"


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
def test_a_chapters_notebook_hides_the_solution_and_links_to_notebooks(
    path: Path, notebook: Callable[[str], Any]
) -> None:
    text = path.read_text(encoding="utf-8")
    cells = notebook(text).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert len(code) == text.count("```{code-cell}")
    assert [cell.metadata["jupyter"] for cell in code if "jupyter" in cell.metadata] == [
        {"source_hidden": True}
    ]
    for cell in code:
        compile(cell.source, path.name, "exec")
    prose = "".join(cell.source for cell in cells if cell.cell_type != "code")
    assert "file_format" not in prose
    assert links(prose) == []
    assert re.findall(r"\]\((\d\d-[\w-]+)\.ipynb\)", prose) == links(text)
