"""`tpo train --probe`: what a model can do before training, and what follows from it."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")
from datasets import Dataset

import tiny_model
from tiny_training import flags
from tpo.cli import main
from tpo.llm.evaluation import Evaluation, evaluate
from tpo.llm.probe import Probe
from tpo.llm.recipe import Recipe
from tpo.llm.scoring import Scoring


def test_a_probe_trains_nothing_and_leaves_nothing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer is one word of 80: eight samples of eight words find it in some prompts, never in all."""
    given = flags(place, group_size=8, micro_batch=8, held_out=8)
    assert main([*given, "--probe"]) == 0
    alone = capsys.readouterr().out.splitlines()
    assert "before training, 8 held-out prompts, 8 samples each:" in alone[0]
    assert alone[2].startswith("  informative groups ")
    assert not (place / "run").exists()
    several = flags(place, group_size=8, micro_batch=8, held_out=8, steps=None, compare="tpo,grpo")
    assert main([*several, "--workers=2", "--probe"]) == 0
    assert capsys.readouterr().out.splitlines() == alone  # the model is the same for every method
    assert main([*given, "--probe", "--resume"]) == 2
    assert "leave --resume out" in capsys.readouterr().err


def test_nothing_to_learn_from_is_an_exit_status(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"prompt": f"w{i}", "answer": "a word that is not known"} for i in range(12)]
    (place / "task.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert main([*flags(place), "--probe"]) == 1
    assert "nothing to learn from: no sample is right" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"informative": 0.5}, None),
        ({"informative": 0.05}, "fewer than one informative group in a rollout batch"),
        ({"pass_at_k": 0.0}, "no sample is right"),
        ({"pass_at_k": 1.0, "sampled": 1.0}, "all samples of a prompt score alike"),
        ({"informative": 0.5, "at_limit": 0.3}, "30% of samples are as long as max_tokens 14 allows"),
        ({"informative": 0.5, "failures": 3}, "3 completions could not be scored"),
    ],
)  # fmt: skip
def test_what_follows(found: dict[str, Any], words: str | None) -> None:
    none = {"greedy": 0.0, "sampled": 0.1, "pass_at_k": 0.5, "informative": 0.0, "at_limit": 0.0,
            "k": 16, "prompts": 80, "failures": 0, "examples": []}  # fmt: skip
    seen = Probe(Evaluation(**(none | found)), Recipe("m", "toy:sort", prompts=16, max_tokens=14))
    advice = seen.lines[3:]
    assert len(advice) == (words is not None)
    assert words is None or words in advice[0]
    assert seen.hopeless == ("informative" not in found)


def test_informative_prompts_and_samples_at_the_limit_are_counted() -> None:
    """Samples that are all right, all wrong, and both; three of six are as long as they may be."""
    held_out = Dataset.from_dict({"prompt": ["w1", "w2", "w3"], "answer": ["w7", "w8", "w9"]})
    drawn = [[17], [17], [11], [11, 12], [19, tiny_model.EOS], [11, 12]]
    scoring = Scoring({"name": "contains"})

    def draw(prompts: list[list[int]], temperature: float | None) -> list[list[int]]:
        return drawn if temperature else [[17]] * len(prompts)

    found = evaluate(
        tiny_model.model(), tiny_model.tokenizer(), held_out, scoring, k=2, max_new_tokens=2,
        sampler=draw,  # type: ignore[arg-type]
    )  # fmt: skip
    scoring.close()
    assert (found.pass_at_k, found.informative) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert found.at_limit == pytest.approx(3 / 6)
