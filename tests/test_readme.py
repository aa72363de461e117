"""The README does what it says: its code runs, its function is TPO, its numbers follow from the evidence."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import tpo
from support import ROOT
from tpo.cli import demo, parser
from tpo.stats.repetition import repetition

README = (ROOT / "README.md").read_text(encoding="utf-8")
CODE = re.findall(r"```(\w*)\n(.*?)```", README, flags=re.DOTALL)
EVIDENCE = {
    "sort 2-6 numbers (eta 0.5)": "smollm2_mixed_again",
    "digit sums (defaults)": "smollm2_digits_again",
    "reverse 3 letters (pooled ties)": "smollm2_reverse_again",
    "`chain_sum` (defaults)": "smollm2_chain_sum",
    "`products` (defaults)": "smollm2_products",
}
"""Rows of the table of language models: the task and TPO's variant."""


def block(kind: str, holding: str) -> str:
    (found,) = [code for language, code in CODE if language == kind and holding in code]
    return found


def batch(seed: int) -> dict[str, Any]:
    """Two groups of four candidates with up to five tokens; the first group has one score for all."""
    draw = torch.Generator().manual_seed(seed)
    scores = torch.rand(2, 4, generator=draw)
    scores[0] = 0.1
    mask = torch.arange(5) < torch.randint(1, 6, (2, 4, 1), generator=draw)
    old = -torch.rand(2, 4, 5, generator=draw)
    return {"log_probs_old": old, "scores": scores, "mask": mask}


def test_it_is_short() -> None:
    """As `wc -w` counts, code and tables included."""
    assert len(README.split()) <= 800


def test_its_commands_install_what_they_need_and_run_the_demos() -> None:
    typed = re.findall(r"^make (\S+)", block("", "make demo"), flags=re.MULTILINE)
    assert typed == ["demo", "demo-llm"]
    for target, (extra, llm) in zip(typed, (("lab", False), ("lab,llm", True)), strict=True):
        call = ["make", "--no-print-directory", "--dry-run", "--always-make", target]
        recipe = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert f"--editable '.[{extra}]'" in recipe
        program, *words = recipe.splitlines()[-1].split()
        args = parser().parse_args(words)
        assert (Path(program).name, args.run, args.llm) == ("tpo", demo.main, llm)


@pytest.mark.parametrize("moved", [0.0, 0.3])
@pytest.mark.parametrize("eta", [1.0, 0.5])
def test_the_function_to_copy_is_tpo(moved: float, eta: float) -> None:
    names: dict[str, Any] = {}
    exec(block("python", "def tpo_loss"), names)
    copied: Callable[..., Any] = names["tpo_loss"]
    given = batch(0)
    objective = tpo.objective("tpo", score="ratio", eta=eta)
    prepared = objective.prepare(tpo.Groups(**given))
    noise = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(1))
    now = (given["log_probs_old"] + moved * noise).requires_grad_()
    mine = torch.autograd.grad(objective.loss(now, prepared), now)[0]
    own = torch.autograd.grad(copied(now, **given, eta=eta), now)[0]
    assert mine.abs().max() > 0.01
    torch.testing.assert_close(own, mine, rtol=1e-5, atol=1e-6)


def test_the_lines_of_use_train() -> None:
    given = batch(1)
    weights = torch.zeros(2, 4, 5, requires_grad=True)
    names = {
        "log_probs_at_rollout": given["log_probs_old"],
        "scores": given["scores"],
        "token_mask": given["mask"],
        "log_probs": lambda: given["log_probs_old"] + weights,
        "optimizer": torch.optim.SGD([weights], lr=0.1),
    }
    exec(block("python", "objective.prepare"), names)
    best = given["scores"][1].argmax()
    assert (weights[0] == 0).all(), "a group of equal scores moves nothing"
    assert weights[1, best].sum() > 0


def test_the_three_lines_for_trl_are_real_names() -> None:
    pytest.importorskip("trl")
    import tpo.llm

    lines = block("diff", "TargetPolicyTrainer").splitlines()
    assert len([line for line in lines if line.startswith("+")]) == 3
    (imported,) = re.findall(r"\+from tpo\.llm import (.*)", "\n".join(lines))
    assert all(hasattr(tpo.llm, name) for name in imported.split(", "))


def differences(name: str, measure: str) -> tuple[np.ndarray, int]:
    """TPO's best rate minus GRPO's, both with four epochs, seed by seed, in points."""
    kept = json.loads((ROOT / f"docs/evidence/llm/{name}.json").read_text(encoding="utf-8"))
    (variant,) = [row for row in rows() if EVIDENCE[row[0]] == name]
    named = variant[0].partition("(")[2].strip(")")
    wanted = {"eta 0.5": ":eta=0.5", "pooled ties": ":ties=free", "defaults": ""}[named]

    def best(objective: str, option: str) -> np.ndarray:
        def own(method: str) -> bool:
            parts = [p for p in method.split(":") if not p.startswith("learning_rate=")]
            return sorted(parts) == sorted([objective, "iterations=4", *option.split(":")[1:]])

        def seeds(measured: str, method: str) -> np.ndarray:
            panel = next(p for p in kept["panels"] if p["coords"]["measure"] == measured)
            series = next(s for s in panel["series"] if s["method"] == method)
            return 100 * np.array(series["seeds"])[:, -1]

        methods = [one["method"] for one in kept["methods"] if own(one["method"])]
        chosen = max(methods, key=lambda method: seeds("sampled", method).mean())
        return seeds(measure, chosen)

    found = best("tpo", wanted) - best("grpo", "")
    return found, len(found)


def rows() -> list[list[str]]:
    """The cells of the table of language models."""
    cells = [line.split(" | ") for line in README.splitlines() if " | " in line]
    return [row for row in cells if row[0] in EVIDENCE]


@pytest.mark.parametrize("task", EVIDENCE)
def test_the_numbers_of_language_models_follow_from_the_evidence(task: str) -> None:
    (row,) = [row for row in rows() if row[0] == task]
    name = EVIDENCE[task]
    points, n = differences(name, "sampled")
    low, high = stats.ttest_1samp(points, 0).confidence_interval()
    accuracy = f"{points.mean():.1f}"
    accuracy = f"**{accuracy}**" if low > 0 or high < 0 else accuracy
    solved, _ = differences(name, "pass_at_k")
    significant = stats.ttest_1samp(solved, 0).pvalue < 0.05
    passed = f"**{solved.mean():.1f}**" if significant else f"{solved.mean():.1f}"
    assert row[1:3] == [f"{accuracy} ({low:.1f} to {high:.1f})", passed]
    assert row[4] == str(n)
    table = (ROOT / "docs/research/comparisons/index.md").read_text(encoding="utf-8")
    (line,) = [x for x in table.splitlines() if x.startswith("| ") and f"]({name}.md) |" in x]
    ratio = line.split("|")[7].strip()
    assert row[3].strip("*") == (ratio if ratio == "never" else f"{float(ratio):.2f}")


def test_the_papers_numbers_have_intervals_that_follow_from_the_seeds() -> None:
    """Some seeds at H = 10 fail completely and others learn, so the range is that of split seeds."""
    terminal = json.loads((ROOT / "docs/evidence/terminal.json").read_text(encoding="utf-8"))
    line = next(line for line in README.splitlines() if "[Terminal reward]" in line)
    told = re.findall(r"([\w ]+?) ([\d.]+) \[([\d.]+), ([\d.]+)\] \(paper (\S+)\)", line)
    assert len(told) == 5
    for label, mean, low, high, _ in told:
        (cell,) = [
            one
            for one in terminal["parts"]
            if one["coords"] == {"H": 10, "matching": "prompt"} and one["label"] == label.strip()
        ]
        last = np.array(cell["tracks"]["error"]["last"])
        ends = 100 * np.clip(repetition(last, split=True), 0, 1)
        assert float(mean) == pytest.approx(100 * last.mean(), rel=0.01)
        assert [float(low), float(high)] == pytest.approx(list(ends), rel=0.05)
