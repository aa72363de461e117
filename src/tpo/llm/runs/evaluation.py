"""Evaluation on held-out prompts: greedy accuracy, pass@k, and the KL from the initial model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from tpo.llm.group_metrics import group_metrics
from tpo.llm.packed.log_probs import at_targets
from tpo.llm.rewards.pool import Scoring
from tpo.llm.run_options import GroupOptions, LogOptions, OutputOptions, TrainingOptions
from tpo.llm.runs.prompts import Tokens, prompt_text, token_ids
from tpo.llm.sampling.sampler import Sampler, up_to_end

TOKENS_AT_ONCE = 2048
"""Where log-probs are measured, this many tokens' distributions over the vocabulary are in memory at a time."""
EXAMPLES = 5
"""Greedy completions that an evaluation keeps."""


@dataclass(frozen=True)
class EvaluationSettings:
    """How held-out prompts are evaluated; all but `k` and `seed` should be as in training."""

    k: int = OutputOptions.eval_samples
    """samples per prompt"""
    max_new_tokens: int = TrainingOptions.max_tokens
    temperature: float = TrainingOptions.temperature
    """of samples"""
    success: float = LogOptions.success
    """a score above this counts as solved"""
    drop_truncated: bool = GroupOptions.drop_truncated
    """whether training leaves truncated completions out of their group"""
    chat_template_kwargs: Mapping[str, Any] | None = None
    seed: int = 0
    sampler: Sampler | None = None
    """None: transformers' `generate`"""
    batch_size: int = 16
    """completions at a time, of transformers' `generate`"""


class Evaluation(NamedTuple):
    """What a model reaches on held-out prompts."""

    greedy: float
    """share of prompts solved by the greedy completion"""
    sampled: float
    """mean score of sampled completions"""
    pass_at_k: float
    """share of prompts that at least one of k samples solves, without bias"""
    informative: float
    """share of prompts whose samples differ in score; samples that training leaves out do not count"""
    truncated: float
    """share of samples that reached `max_new_tokens` without an end"""
    k: int
    prompts: int
    failures: int
    """completions that could not be scored; they count as not solved"""
    examples: list[dict[str, Any]]
    """the first few greedy completions with their scores, None where there is none"""
    kl: float | None = None
    """nats per completion from the initial model, KL(pi‖pi_initial) by the samples; None: not asked for"""


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
    settings: EvaluationSettings | None = None,
    initial_model: Any = None,
) -> Evaluation:
    """Greedy accuracy and pass@k on `held_out`, and the KL from `initial_model` where one is given.

    held_out: a dataset with a column `prompt` and the columns that `scoring` takes. The global random state and
    the model's mode are left as they were.
    """
    settings = settings or EvaluationSettings()
    prompts = list(held_out["prompt"])
    failures_before = scoring.failures.total
    completions = _complete(model, tokenizer, prompts, settings, initial_model)
    greedy, samples = (
        tokenizer.batch_decode(rows, skip_special_tokens=True)
        for rows in (completions.greedy, completions.samples)
    )
    columns = {name: list(held_out[name]) for name in held_out.column_names if name != "prompt"}
    greedy_scores = scoring(greedy, **columns)
    sample_scores = scoring(samples, **{name: _repeat(x, settings) for name, x in columns.items()})
    examples = zip(prompts, greedy, greedy_scores, strict=True)
    return Evaluation(
        greedy=_mean([float((s or 0.0) > settings.success) for s in greedy_scores]),
        **_sample_metrics(sample_scores, completions.truncated, settings),
        k=settings.k,
        prompts=len(prompts),
        failures=scoring.failures.total - failures_before,
        examples=[
            {"prompt": prompt_text(p), "completion": c, "score": s}
            for p, c, s in list(examples)[:EXAMPLES]
        ],
        kl=completions.kl,
    )


class _Completions(NamedTuple):
    """Token ids of a model's completions."""

    greedy: list[Tokens]
    """one per prompt"""
    samples: list[Tokens]
    """k per prompt"""
    truncated: list[bool]
    """of samples"""
    kl: float | None


def _complete(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Any],
    settings: EvaluationSettings,
    initial_model: Any,
) -> _Completions:
    """Greedy and sampled completions, and the KL of the samples, with the model in eval mode."""
    ids = token_ids(tokenizer, prompts, **(settings.chat_template_kwargs or {}))
    repeated, temperature = _repeat(ids, settings), settings.temperature
    training = model.training
    model.eval()
    sampler = settings.sampler or TransformersSampler(
        model, tokenizer, settings.max_new_tokens, settings.batch_size
    )
    with torch.random.fork_rng(_devices(model)):
        torch.manual_seed(settings.seed)
        greedy = sampler(ids, None)
        samples = sampler(repeated, temperature)
    kl = None
    if initial_model is not None:
        kl = sampled_kl(model, initial_model, repeated, samples, temperature)
    model.train(training)
    ends = set(map(int, sampler.ends))
    truncated = [len(row) >= settings.max_new_tokens and row[-1] not in ends for row in samples]
    return _Completions(greedy, samples, truncated, kl)


def _sample_metrics(
    scores: Sequence[float | None], truncated: Sequence[bool], settings: EvaluationSettings
) -> dict[str, float]:
    """The fields of `Evaluation` that follow from the samples' scores, None where one could not be scored."""
    k, success = settings.k, settings.success
    known = [s or 0.0 for s in scores]
    left_out = [
        s is None or (settings.drop_truncated and t) for s, t in zip(scores, truncated, strict=True)
    ]
    groups = torch.tensor(known, dtype=torch.double).reshape(-1, k)
    valid = ~torch.tensor(left_out).reshape(-1, k)
    return {
        "sampled": _mean(known),
        "pass_at_k": _mean([pass_at(k, n, k) for n in (groups > success).sum(-1).tolist()]),
        "informative": 1 - group_metrics(groups, valid, success)["groups/zero_variance"],
        "truncated": _mean(list(map(float, truncated))),
    }


def _repeat(values: Sequence[Any], settings: EvaluationSettings) -> list[Any]:
    """Each value once for every sample of its prompt."""
    return [value for value in values for _ in range(settings.k)]


class NothingScoredError(ValueError):
    """The scorer fails on everything."""


def check_scored(evaluation: Evaluation, scoring: Scoring) -> None:
    """A scorer that fails on every completion before training will fail on those of training."""
    total = evaluation.prompts * (evaluation.k + 1)  # k samples and a greedy one
    if evaluation.failures < total:
        return
    reasons = "; ".join(f"{kind}: {first}" for kind, first in scoring.failures.first.items())
    raise NothingScoredError(
        f"scorer {scoring.__name__!r} scored none of the {total} completions before training "
        f"({reasons}): fix the scorer, or the answers that it is given"
    )


class TransformersSampler:
    """Completions by transformers' own `generate`, for models that `Sampler` does not support."""

    def __init__(self, model: Any, tokenizer: Any, tokens: int, rows: int) -> None:
        """`tokens` per completion at most; `rows` completions at a time."""
        self.model, self.tokenizer, self.tokens, self.rows = model, tokenizer, tokens, rows
        ends = model.generation_config.eos_token_id
        self.ends: list[int] = ends if isinstance(ends, list) else [ends]

    @torch.no_grad()
    def __call__(self, prompts: Sequence[Tokens], temperature: float | None) -> list[Tokens]:
        """One completion per prompt; temperature None is greedy."""
        sampling: dict[str, Any] = (
            {"do_sample": False}
            if temperature is None
            else {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
        )
        completions: list[Tokens] = []
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
            completions += out[:, batch["input_ids"].shape[1] :].tolist()
        return [up_to_end(row, self.ends) for row in completions]


@torch.no_grad()
def sampled_kl(
    model: Any,
    initial_model: Any,
    prompts: Sequence[Tokens],
    completions: Sequence[Tokens],
    temperature: float,
) -> float:
    """Mean over completions of Σ_t log pi(y_t) - log pi_initial(y_t), sampled from pi at this temperature."""
    total = 0.0
    longest = max(len(p) + len(c) for p, c in zip(prompts, completions, strict=True))
    rows = max(1, TOKENS_AT_ONCE // longest)
    for first in range(0, len(prompts), rows):
        part = slice(first, first + rows)
        pairs = list(zip(prompts[part], completions[part], strict=True))
        width = max(len(p) + len(c) for p, c in pairs)
        ids = torch.zeros(len(pairs), width, dtype=torch.long)
        in_completion = torch.zeros(len(pairs), width, dtype=torch.bool)
        for i, (p, c) in enumerate(pairs):
            ids[i, : len(p) + len(c)] = torch.tensor([*p, *c])
            in_completion[i, len(p) : len(p) + len(c)] = True
        ids, in_completion = ids.to(model.device), in_completion.to(model.device)
        now, before = (_log_probs(one, ids, temperature) for one in (model, initial_model))
        total += ((now - before) * in_completion[:, 1:]).sum().item()
    return total / len(prompts)


def _log_probs(model: Any, ids: torch.Tensor, temperature: float) -> torch.Tensor:
    """[n, L - 1] of each token after the first; padding is on the right, where no token attends."""
    return at_targets(model(input_ids=ids).logits[:, :-1], ids[:, 1:], temperature)[1]


def _devices(model: Any) -> list[Any]:
    return [model.device] if model.device.type == "cuda" else []


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
