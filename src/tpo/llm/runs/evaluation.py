"""Evaluation on held-out prompts: greedy accuracy, pass@k and how far the model has moved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from tpo.llm.group_metrics import group_metrics
from tpo.llm.packed.log_probs import at_targets
from tpo.llm.rewards.pool import Scoring
from tpo.llm.sampling.sampler import Sampler, up_to_end

Tokens = list[int]
AT_ONCE = 2048
"""Tokens whose distribution over the vocabulary is held at a time, where log-probs are measured."""


class Evaluation(NamedTuple):
    """What a model reaches on held-out prompts."""

    greedy: float
    """share of prompts solved by the greedy completion"""
    sampled: float
    """mean score of sampled completions"""
    pass_at_k: float
    """share of prompts that at least one of k samples solves, without bias"""
    informative: float
    """share of prompts whose k samples do not all score alike, those aside that training leaves out"""
    truncated: float
    """share of samples that were cut at `max_new_tokens`"""
    k: int
    prompts: int
    failures: int
    """completions that could not be scored; they count as not solved"""
    examples: list[dict[str, Any]]
    """the first few greedy completions with their scores, None where there is none"""
    kl: float | None = None
    """nats per completion from the model at the start, KL(pi‖pi_start) by the samples; None: not asked for"""


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
    drop_truncated: bool = False,
    seed: int = 0,
    sampler: Sampler | None = None,
    start: Any = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
) -> Evaluation:
    """Greedy accuracy and pass@k on `held_out`; the global random state is left as it was.

    Completions come from `sampler` if one is given, else from transformers' `generate`. `start` is the model at
    the start of training, to measure the distance from; `success`, `drop_truncated` and `chat_template_kwargs`
    are those of training.
    """
    prompts = list(held_out["prompt"])
    columns = {name: list(held_out[name]) for name in held_out.column_names if name != "prompt"}
    ids = token_ids(tokenizer, prompts, **(chat_template_kwargs or {}))
    before = scoring.failures.total
    training = model.training
    model.eval()
    draw = sampler or Generate(model, tokenizer, max_new_tokens, batch_size)
    with torch.random.fork_rng(_devices(model)):
        torch.manual_seed(seed)
        greedy_ids = draw(ids, None)
        repeated = [p for p in ids for _ in range(k)]
        sample_ids = draw(repeated, temperature)
    kl = None if start is None else drift(model, start, repeated, sample_ids, temperature)
    model.train(training)
    greedy, samples = (
        tokenizer.batch_decode(rows, skip_special_tokens=True) for rows in (greedy_ids, sample_ids)
    )
    greedy_scores = scoring(greedy, **columns)
    more = {name: [x for x in values for _ in range(k)] for name, values in columns.items()}
    given = scoring(samples, **more)
    scores = [s or 0.0 for s in given]
    ends = set(map(int, draw.ends))
    cut = [len(row) >= max_new_tokens and row[-1] not in ends for row in sample_ids]
    left_out = [s is None or (drop_truncated and c) for s, c in zip(given, cut, strict=True)]
    groups = torch.tensor(scores, dtype=torch.double).reshape(-1, k)
    valid = ~torch.tensor(left_out).reshape(-1, k)
    return Evaluation(
        greedy=_mean([float((s or 0.0) > success) for s in greedy_scores]),
        sampled=_mean(scores),
        pass_at_k=_mean([pass_at(k, n, k) for n in (groups > success).sum(-1).tolist()]),
        informative=1 - group_metrics(groups, valid, success)["groups/zero_variance"],
        truncated=_mean(list(map(float, cut))),
        k=k,
        prompts=len(prompts),
        failures=scoring.failures.total - before,
        examples=[
            {"prompt": _text(p), "completion": c, "score": s}
            for p, c, s in list(zip(prompts, greedy, greedy_scores, strict=True))[:5]
        ],
        kl=kl,
    )


class NothingScoredError(ValueError):
    """The scorer fails on everything."""


def check_scored(found: Evaluation, scoring: Scoring) -> None:
    """A scorer that fails on every completion before training will fail on those of training."""
    tried = found.prompts * (found.k + 1)  # greedily too
    if found.failures < tried:
        return
    what = "; ".join(f"{kind}: {first}" for kind, first in scoring.failures.first.items())
    raise NothingScoredError(
        f"scorer {scoring.__name__!r} scored none of the {tried} completions before training ({what}): fix the "
        "scorer, or the answers that it is given"
    )


class Generate:
    """Completions by transformers' own `generate`, for models that the sampler does not fit."""

    def __init__(self, model: Any, tokenizer: Any, tokens: int, rows: int) -> None:
        """At most so many tokens, and rows at a time."""
        self.model, self.tokenizer, self.tokens, self.rows = model, tokenizer, tokens, rows
        ends = model.generation_config.eos_token_id
        self.ends: list[int] = ends if isinstance(ends, list) else [ends]

    @torch.no_grad()
    def __call__(self, prompts: Sequence[Tokens], temperature: float | None) -> list[Tokens]:
        """One completion per prompt; temperature None takes the likeliest tokens."""
        sampling: dict[str, Any] = (
            {"do_sample": False}
            if temperature is None
            else {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
        )
        found: list[Tokens] = []
        for first in range(0, len(prompts), self.rows):
            batch = self.tokenizer.pad(
                {"input_ids": list(prompts[first : first + self.rows])},
                padding_side="left",
                return_tensors="pt",
            ).to(self.model.device)
            out = self.model.generate(
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                max_new_tokens=self.tokens,
                pad_token_id=self.tokenizer.pad_token_id,
                disable_compile=True,
                **sampling,
            )
            found += out[:, batch["input_ids"].shape[1] :].tolist()
        return [up_to_end(row, self.ends) for row in found]


@torch.no_grad()
def drift(
    model: Any,
    start: Any,
    prompts: Sequence[Tokens],
    completions: Sequence[Tokens],
    temperature: float,
) -> float:
    """The mean over completions of Σ_t log pi(y_t) - log pi_start(y_t), sampled from pi at this temperature."""
    total = 0.0
    longest = max(len(p) + len(c) for p, c in zip(prompts, completions, strict=True))
    rows = max(1, AT_ONCE // longest)
    for first in range(0, len(prompts), rows):
        part = slice(first, first + rows)
        pairs = list(zip(prompts[part], completions[part], strict=True))
        width = max(len(p) + len(c) for p, c in pairs)
        ids = torch.zeros(len(pairs), width, dtype=torch.long)
        own = torch.zeros(len(pairs), width, dtype=torch.bool)
        for i, (p, c) in enumerate(pairs):
            ids[i, : len(p) + len(c)] = torch.tensor([*p, *c])
            own[i, len(p) : len(p) + len(c)] = True
        ids, own = ids.to(model.device), own.to(model.device)
        here, there = (_log_probs(one, ids, temperature) for one in (model, start))
        total += ((here - there) * own[:, 1:]).sum().item()
    return total / len(prompts)


def _log_probs(model: Any, ids: torch.Tensor, temperature: float) -> torch.Tensor:
    """[n, L - 1] of each token after the first; padding is behind, where no token looks."""
    return at_targets(model(input_ids=ids).logits[:, :-1], ids[:, 1:], temperature)[1]


def _devices(model: Any) -> list[Any]:
    return [model.device] if model.device.type == "cuda" else []


def token_ids(tokenizer: Any, prompts: Sequence[Any], **template: Any) -> list[Tokens]:
    """Prompts as TRL reads them: special tokens come from the chat template, else from the tokenizer."""
    found = []
    for prompt in prompts:
        plain = _is_plain(tokenizer, prompt)
        text = as_text(tokenizer, prompt, **template)
        found.append(tokenizer(text, add_special_tokens=plain)["input_ids"])
    return found


def as_text(tokenizer: Any, prompt: Any, **template: Any) -> str:
    """A prompt as the model reads it: through the chat template, or as plain text without one."""
    if _is_plain(tokenizer, prompt):
        return _text(prompt)
    return str(
        tokenizer.apply_chat_template(
            prompt, tokenize=False, add_generation_prompt=True, **template
        )
    )


def _is_plain(tokenizer: Any, prompt: Any) -> bool:
    return isinstance(prompt, str) or not getattr(tokenizer, "chat_template", None)


def _text(prompt: Any) -> str:
    return prompt if isinstance(prompt, str) else "\n".join(m["content"] for m in prompt)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
