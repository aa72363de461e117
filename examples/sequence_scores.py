"""What each sequence score learns on a tiny random model: `python examples/sequence_scores.py --seeds 3`.

Four prompts of 8 completions of up to 24 tokens, rewarded by the share of words out of a quarter of the
vocabulary; 60 optimiser steps, with one and with four epochs per batch (TRL's `num_iterations`). A toy: it
shows whether a score learns at all, no more.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import statistics
import sys
import warnings
from typing import Any

from tpo.benchmarks import tiny_llm

METHODS: dict[str, dict[str, Any]] = {
    "tpo sum": {"score": "sum"},
    "tpo mean": {"score": "mean"},
    "tpo ratio": {"score": "ratio"},
    "tpo mean_ratio": {"score": "mean_ratio"},
    "grpo": {"objective": "grpo"},
}
WORDS, WANTED = 80, 20


def main(arguments: list[str] | None = None) -> int:
    """Print a table: effective candidates at the start, reward at the start and over the last ten steps."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--epochs", type=int, nargs="*", default=[1, 4], help="epochs per batch")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    args = parser.parse_args(arguments)
    print(f"{'':16}{'epochs':>7}{'effective of 8':>16}{'start':>8}{'end':>8}   each seed")
    for epochs in args.epochs:
        for name, options in METHODS.items():
            own = {"learning_rate": args.learning_rate, **options}
            runs = [run(seed, args.steps, epochs, own) for seed in range(args.seeds)]
            start, end, effective = (statistics.mean(column) for column in zip(*runs, strict=True))
            each = " ".join(f"{r[1]:.2f}" for r in runs)
            print(
                f"{name:16}{epochs:>7}{effective:>16.1f}{start:>8.2f}{end:>8.2f}   {each}",
                flush=True,
            )
    return 0


def run(seed: int, steps: int, epochs: int, options: dict[str, Any]) -> tuple[float, float, float]:
    """Reward of the first batch and of the last ten steps, effective candidates in the first batch."""
    from datasets import Dataset

    from tpo.llm import TargetPolicyConfig, TargetPolicyTrainer

    config = tiny_llm.options(
        num_iterations=epochs,
        max_completion_length=24,
        lr_scheduler_type="constant",
        disable_tqdm=True,
        logging_steps=1,
        max_steps=steps,
        seed=seed,
        patience=10**6,
    )
    prompts = Dataset.from_dict({"prompt": [f"w{i} w{(7 * i) % WORDS}" for i in range(64)]})
    trainer = TargetPolicyTrainer(
        tiny_llm.model(WORDS, 32, 2, seed, intermediate_size=64, initializer_range=0.2),
        wanted,
        TargetPolicyConfig(**config, **options),
        train_dataset=prompts,
        processing_class=tiny_llm.tokenizer(WORDS),
    )
    with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()):
        trainer.train()
    rows = [row for row in trainer.state.log_history if "reward" in row]
    rewards = [row["reward"] for row in rows]
    few = max(1, 10 // epochs)
    effective = rows[0].get("target/effective_candidates", float("nan"))
    return statistics.mean(rewards[:1]), statistics.mean(rewards[-few:]), effective


def wanted(completions: list[str], **_: Any) -> list[float]:
    """The share of words among the first of the vocabulary."""
    return [
        sum(int(word[1:]) < WANTED for word in text.split()) / max(len(text.split()), 1)
        for text in completions
    ]


if __name__ == "__main__":
    sys.exit(main())
