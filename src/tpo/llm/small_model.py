"""A language model of 0.9M parameters for a CPU, pretrained on the form of answers to "Reverse the letters".

It answers with the letters of the question in random order, and with the right order in a given share of the
questions. So it is right now and then before training, and reinforcement learning does the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from tpo.llm.runs.models import save_whole, saved_from
from tpo.llm.tasks.toys import LETTERS, reverse, varied_length

BATCH, RATE, WARM_UP = 96, 3e-3, 100
USER, BOT, END = "<user>", "<bot>", "<end>"
QUESTION = str(reverse.__doc__)
TEMPLATE = (
    "{% for m in messages %}{{ '<user>' if m.role == 'user' else '<bot>' }}{{ m.content }}"
    "{{ '<end>' if m.role != 'user' }}{% endfor %}{{ '<bot>' if add_generation_prompt }}"
)

OnStep = Callable[[int, float], None]
"""Called after each step with the number of steps so far and the loss."""


@dataclass(frozen=True)
class Pretraining:
    """What the model is pretrained on, and for how long."""

    letters: int = 5
    spread: int = 0
    """letters more or less"""
    right: float = 0.0
    """share of right answers; the others have their letters in random order"""
    steps: int = 800


def tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with one token for each letter, and one for the question."""
    known = dict.fromkeys(["<pad>", END, USER, BOT, " ", QUESTION, *LETTERS])
    inner = Tokenizer(models.WordLevel({x: i for i, x in enumerate(known)}, unk_token="<pad>"))
    parts = "|".join([USER, BOT, END, QUESTION.replace(".", r"\."), "."])
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(parts), "isolated")
    inner.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        eos_token=END,
        additional_special_tokens=[USER, BOT],
        chat_template=TEMPLATE,
    )


def model(tok: Any) -> LlamaForCausalLM:
    """Four layers of width 128, with random weights."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tok),
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=4,
            num_attention_heads=4,
            max_position_embeddings=128,
            tie_word_embeddings=True,
            pad_token_id=tok.pad_token_id,
            eos_token_id=tok.eos_token_id,
            bos_token_id=tok.eos_token_id,
        )
    )


def examples(draw: Random, data: Pretraining) -> list[tuple[str, str]]:
    """A batch of questions of one length, with their answers."""
    letters = varied_length(draw, data.letters, data.spread)
    asked = [reverse(draw, letters) for _ in range(BATCH)]
    return [(f"{USER}{QUESTION} {x}{BOT}", _answer(draw, x, y, data) + END) for x, y in asked]


def _answer(draw: Random, letters: str, right: str, data: Pretraining) -> str:
    if data.right and draw.random() < data.right:
        return right
    return "".join(draw.sample(letters, len(letters)))


def pretrain(folder: Path, data: Pretraining, on_step: OnStep | None = None) -> int:
    """Make the model in a new folder that `from_pretrained` reads; return its number of parameters.

    Adam on the cross-entropy of the answers, with a linear warm-up and decay of the learning rate.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        tok, draw = tokenizer(), Random(1)
        trained = model(tok)
        optimizer = torch.optim.AdamW(trained.parameters(), RATE)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda i: min(1, (i + 1) / WARM_UP) * (1.02 - i / data.steps)
        )
        for step in range(1, data.steps + 1):
            loss = _loss(trained, tok, examples(draw, data))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(trained.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            if on_step:
                on_step(step, loss.item())
    save_whole(folder, asdict(data), trained, tok)
    return int(sum(p.numel() for p in trained.parameters()))


def _loss(trained: Any, tok: Any, pairs: list[tuple[str, str]]) -> torch.Tensor:
    """The mean cross-entropy of the answers' tokens."""
    ids = torch.tensor(tok([question + answer for question, answer in pairs])["input_ids"])
    labels = ids.clone()
    labels[:, : len(tok.encode(pairs[0][0]))] = -100  # no loss on the question
    loss: torch.Tensor = trained(input_ids=ids, labels=labels).loss
    return loss


def is_pretrained(folder: Path, data: Pretraining) -> bool:
    """Whether the folder holds the model of this pretraining, complete."""
    return saved_from(folder) == asdict(data)
