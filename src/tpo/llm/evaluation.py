"""Evaluation on held-out prompts: greedy accuracy and pass@k, by the same scorer as in training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from tpo.llm.scoring import Scoring


class Evaluation(NamedTuple):
    """What a model reaches on held-out prompts."""

    greedy: float
    """share of prompts solved by the greedy completion"""
    sampled: float
    """mean score of sampled completions"""
    pass_at_k: float
    """share of prompts that at least one of k samples solves, without bias"""
    k: int
    prompts: int
    failures: int
    """completions that could not be scored; they count as not solved"""
    examples: list[dict[str, Any]]
    """the first few greedy completions with their scores"""


def pass_at(n: int, solved: int, k: int) -> float:
    """1 - C(n - solved, k)/C(n, k): the chance that k of n samples, of which some are solved, hold one."""
    if not 0 < k <= n:
        raise ValueError(f"k is {k}, expected 1 to {n}, the number of samples")
    return 1.0 - math.comb(n - solved, k) / math.comb(n, k)


def evaluate(
    model: Any,
    tokenizer: Any,
    held_out: Any,
    scoring: Scoring,
    *,
    k: int = 8,
    max_new_tokens: int = 256,
    temperature: float = 1.0,
    batch_size: int = 16,
    success: float = 0.5,
    seed: int = 0,
) -> Evaluation:
    """Greedy accuracy and pass@k on `held_out`; the global random state is left as it was."""
    prompts = list(held_out["prompt"])
    columns = {name: list(held_out[name]) for name in held_out.column_names if name != "prompt"}
    before = scoring.failures.total
    options = {"max_new_tokens": max_new_tokens, "batch_size": batch_size}
    training = model.training
    model.eval()
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        greedy = completions(model, tokenizer, prompts, **options, do_sample=False)
        repeated = [p for p in prompts for _ in range(k)]
        samples = completions(
            model, tokenizer, repeated, **options, do_sample=True, temperature=temperature
        )
    model.train(training)
    greedy_scores = [s or 0.0 for s in scoring(greedy, **columns)]
    more = {name: [x for x in values for _ in range(k)] for name, values in columns.items()}
    scores = [s or 0.0 for s in scoring(samples, **more)]
    solved = [sum(s > success for s in scores[i * k : (i + 1) * k]) for i in range(len(prompts))]
    return Evaluation(
        greedy=_mean([float(s > success) for s in greedy_scores]),
        sampled=_mean(scores),
        pass_at_k=_mean([pass_at(k, n, k) for n in solved]),
        k=k,
        prompts=len(prompts),
        failures=scoring.failures.total - before,
        examples=[
            {"prompt": _text(p), "completion": c, "score": s}
            for p, c, s in list(zip(prompts, greedy, greedy_scores, strict=True))[:5]
        ],
    )


def completions(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Any],
    *,
    max_new_tokens: int,
    batch_size: int,
    **sampling: Any,
) -> list[str]:
    """One completion per prompt, as text."""
    found: list[str] = []
    texts = [as_text(tokenizer, prompt) for prompt in prompts]
    for start in range(0, len(texts), batch_size):
        batch = tokenizer(
            texts[start : start + batch_size],
            return_tensors="pt",
            padding=True,
            padding_side="left",
            add_special_tokens=False,
        ).to(model.device)
        with torch.no_grad():
            out = model.generate(
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                max_new_tokens=max_new_tokens,
                pad_token_id=tokenizer.pad_token_id,
                disable_compile=True,
                **(sampling | {"top_k": 0, "top_p": 1.0} if sampling["do_sample"] else sampling),
            )
        rows = out[:, batch["input_ids"].shape[1] :]
        found += tokenizer.batch_decode(rows, skip_special_tokens=True)
    return found


def as_text(tokenizer: Any, prompt: Any) -> str:
    """A prompt as the model reads it: through the chat template, or as plain text without one."""
    if isinstance(prompt, str):
        return prompt
    if getattr(tokenizer, "chat_template", None):
        return str(
            tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
        )
    return _text(prompt)


def _text(prompt: Any) -> str:
    return prompt if isinstance(prompt, str) else "\n".join(m["content"] for m in prompt)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
