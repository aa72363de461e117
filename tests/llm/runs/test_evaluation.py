"""Evaluations read prompts as training does, sample as it does, and leave no trace in it."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")
import torch
from datasets import Dataset
from tokenizers.processors import TemplateProcessing
from transformers import set_seed

from support import tiny_model
from tpo.llm import TargetPolicyTrainer
from tpo.llm.rewards.pool import Scoring
from tpo.llm.runs.evaluation import EvaluationSettings, evaluate, sampled_kl
from tpo.llm.runs.prompts import token_ids
from tpo.llm.sampling.sampler import Sampler

TEMPLATE = "{{ mood }}{% for m in messages %} {{ m.content }}{% endfor %}"
TEXT = ["w1 w2", "w3"]
CHAT = [[{"role": "user", "content": text}] for text in TEXT]


def tokenizer(template: str | None = None) -> Any:
    """One that puts <eos> before a text, as many do with their <bos>."""
    made = tiny_model.tokenizer()
    made.backend_tokenizer.post_processor = TemplateProcessing(
        single="<eos> $A", special_tokens=[("<eos>", tiny_model.EOS)]
    )
    made.chat_template = template
    return made


@pytest.mark.parametrize(
    ("prompts", "template", "expected"),
    [(TEXT, None, [tiny_model.EOS, 11, 12]), (CHAT, TEMPLATE, [21, 11, 12])],
    ids=["text", "chat"],
)
def test_prompts_are_read_as_in_training(
    tmp_path: Path, prompts: list[Any], template: str | None, expected: list[int]
) -> None:
    words, more = tokenizer(template), {"mood": "w11"} if template else {}
    trainer = TargetPolicyTrainer(
        tiny_model.model(),
        tiny_model.reward,
        tiny_model.config(tmp_path, chat_template_kwargs=more),
        train_dataset=Dataset.from_dict({"prompt": prompts}),
        processing_class=words,
    )
    found = token_ids(words, prompts, **more)
    assert found == trainer._tokenize_prompts(prompts)[0]
    assert found[0] == expected


def test_training_goes_on_as_if_there_had_been_none() -> None:
    """Random numbers and the mode are those of before; greedy completions do not depend on who decodes."""
    model, words = tiny_model.model().train(), tiny_model.tokenizer()
    held_out = Dataset.from_dict({"prompt": ["w1 w2 w3", "w4"], "answer": ["w1", "w2"]})
    draw = Sampler(model, ends=[tiny_model.EOS], pad=tiny_model.PAD, tokens=6, rows=3)
    scoring = Scoring({"name": "contains"})
    set_seed(3)
    expected = torch.rand(4)
    found = []
    for sampler in (draw, None):
        set_seed(3)
        settings = EvaluationSettings(k=2, max_new_tokens=6, sampler=sampler)
        found.append(evaluate(model, words, held_out, scoring, settings))
        assert torch.equal(torch.rand(4), expected)
        assert model.training
    scoring.close()
    assert found[0].examples == found[1].examples
    assert found[0].prompts == 2


def test_the_sampled_kl_is_that_of_first_tokens() -> None:
    """One token after one prompt: the mean log-ratio of samples is KL(pi‖pi_initial) up to sampling noise."""
    model, start = tiny_model.model(0), tiny_model.model(1)
    with torch.no_grad():
        here, there = (
            m(torch.tensor([[3, 4]])).logits[0, -1].double().log_softmax(-1) for m in (model, start)
        )
    set_seed(0)
    n = 4000
    drawn = Sampler(model, ends=[tiny_model.EOS], pad=tiny_model.PAD, tokens=1, rows=n)(
        [[3, 4]] * n
    )
    exact = (here.exp() * (here - there)).sum().item()
    noise = (here.exp() * (here - there - exact) ** 2).sum().sqrt().item() / n**0.5
    assert sampled_kl(model, start, [[3, 4]] * n, drawn, 1.0) == pytest.approx(exact, abs=4 * noise)
    assert exact > 8 * noise


def test_the_sampled_kl_is_the_same_however_many_rows_are_read_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, start = tiny_model.model(0), tiny_model.model(1)
    rows = [[3, 4], [5], [6, 7, 8]], [[1, 2, 3], [4], [9, 9]]
    whole = sampled_kl(model, start, *rows, 0.7)
    monkeypatch.setattr("tpo.llm.runs.evaluation.TOKENS_AT_ONCE", 1)
    assert sampled_kl(model, start, *rows, 0.7) == pytest.approx(whole, rel=1e-5)
    assert abs(whole) > 0.1
