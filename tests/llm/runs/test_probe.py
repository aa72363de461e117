"""`tpo train --probe`: what a model can do before training, and what follows from it."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")
from datasets import Dataset

from support import tiny_model
from support.tiny_training import flags
from tpo.cli import main
from tpo.llm.rewards.pool import Scoring
from tpo.llm.runs.evaluation import Evaluation, EvaluationSettings, evaluate
from tpo.llm.runs.probe import Probe, probe
from tpo.llm.runs.recipe import Recipe


def probe_flags(place: Path, answer: str, **changes: Any) -> list[str]:
    """A probe of prompts of two lines that all have one answer."""
    rows = [{"prompt": f"w{i} w{i}\nw5", "answer": answer} for i in range(20)]
    (place / "task.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return [*flags(place, group_size=8, micro_batch=8, held_out=8, **changes), "--probe"]


def test_a_probe_trains_nothing_and_leaves_nothing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 80 words eight samples of eight words find one in some groups, never in a whole group."""
    scratch = place / "scratch"
    given = probe_flags(place, "w33", trl=json.dumps({"output_dir": str(scratch)}))
    assert main(given) == 0
    alone = capsys.readouterr().out.splitlines()
    assert "before training, 8 held-out prompts, 8 samples each:" in alone[0]
    assert alone[2].startswith("  informative groups ")
    assert all(r"\nw5' -> '" in line for line in alone[4:9])  # the question
    assert not (place / "run").exists()
    assert not scratch.exists()
    assert main([*probe_flags(place, "w33", steps=None, compare="tpo,grpo"), "--workers=2"]) == 0
    assert capsys.readouterr().out.splitlines() == alone  # one model for every method
    assert main([*given, "--resume"]) == 2
    assert "leave --resume out" in capsys.readouterr().err


def test_nothing_to_learn_from_is_an_exit_status(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(probe_flags(place, "a word that is not known")) == 1
    assert "nothing to learn from in any of 8 groups: most samples" in capsys.readouterr().out
    (place / "broken_scorer.py").write_text("def score(completion, answer):\n    raise OSError\n")
    monkeypatch.setenv("PYTHONPATH", str(place))
    monkeypatch.syspath_prepend(str(place))
    with pytest.warns(RuntimeWarning, match="could not be scored"):
        assert main(probe_flags(place, "w33", scorer="broken_scorer:score")) == 1
    shown = capsys.readouterr().out
    assert "72 of 72 completions could not be scored" in shown
    assert "groups: fix the scorer" in shown
    assert shown.count(": not scored\n") == 5


def test_a_probe_takes_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="one process, not 2: start it without torchrun"):
        probe(Recipe("m", "toy:sort"))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({}, []),
        ({"informative": 0.05}, ["fewer than one informative group in a rollout batch"]),
        ({"informative": 0.0, "pass_at_k": 0.0, "sampled": 0.0}, ["no sample is right"]),
        ({"informative": 0.0, "pass_at_k": 0.0, "sampled": 0.3}, ["all samples of a prompt score alike"]),
        ({"informative": 0.0, "pass_at_k": 0.4, "sampled": 0.4}, ["all samples of a prompt score alike"]),
        ({"informative": 0.0, "pass_at_k": 1.0, "sampled": 1.0}, ["all samples are right"]),
        ({"truncated": 0.3, "failures": 3}, ["3 of 1360 completions could not", "30% of samples reach"]),
        ({"pass_at_k": 0.0}, ["only through partial credit: no sample reached success (a score above 0.5)"]),
        ({"informative": 0.05, "pass_at_k": 0.0}, ["fewer than one", "only through partial credit"]),
        ({"informative": 0.0, "truncated": 0.9}, ["90% of samples", "most samples are truncated"]),
        ({"informative": 0.0, "pass_at_k": 0.0, "greedy": 0.2}, ["a lower --temperature"]),
    ],
)  # fmt: skip
def test_what_follows(found: dict[str, Any], words: list[str]) -> None:
    some = {"greedy": 0.0, "sampled": 0.1, "pass_at_k": 0.5, "informative": 0.5, "truncated": 0.0,
            "k": 16, "prompts": 80, "failures": 0, "examples": []}  # fmt: skip
    recipe = Recipe("m", "toy:sort", prompts=16)
    advice = Probe(recipe, Evaluation(**(some | found)), []).lines[3:]
    assert len(advice) == len(words)
    assert all(part in line for part, line in zip(words, advice, strict=True))


class Drawn:
    """A sampler of samples that are all right, all wrong, and both; one is truncated, one ends at the limit."""

    ends = (tiny_model.EOS,)

    def __call__(self, prompts: list[list[int]], temperature: float | None) -> list[list[int]]:
        if temperature is None:
            return [[17]] * len(prompts)
        return [[17], [17], [11], [11], [19, tiny_model.EOS], [11, 12]]


@pytest.mark.parametrize(("dropped", "informative"), [(False, 1 / 3), (True, 0.0)])
def test_informative_prompts_and_truncated_samples_are_counted(
    dropped: bool, informative: float
) -> None:
    held_out = Dataset.from_dict({"prompt": ["w1", "w2", "w3"], "answer": ["w7", "w8", "w9"]})
    scoring = Scoring({"name": "contains"})
    settings = EvaluationSettings(k=2, max_new_tokens=2, drop_truncated=dropped, sampler=Drawn())  # type: ignore[arg-type]
    found = evaluate(tiny_model.model(), tiny_model.tokenizer(), held_out, scoring, settings)
    scoring.close()
    assert found.pass_at_k == pytest.approx(2 / 3)
    assert (found.informative, found.truncated) == pytest.approx((informative, 1 / 6))
