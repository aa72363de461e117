"""An optimiser step of `TargetPolicyTrainer` against TRL's GRPO with the same config: time and peak memory.

Trainers with the same random model take turns, one step each, in another order each round. A step is
everything from sampling to the update of the weights. The model almost never ends a completion before its last
token, so all trainers do the same work. A second GRPO trainer measures the noise: without other load its ratio
is 1.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tpo.benchmarks import tiny_llm
from tpo.benchmarks.timing import BenchmarkRow
from tpo.benchmarks.tiny_llm import PROMPTS, K

PROMPT, TOKENS, WORDS = 64, 48, 4094
ROUNDS = 20
TRAINERS: dict[str, str | None] = {"tpo ratio": "ratio", "tpo mean": "mean", "GRPO again": None}
"""Sequence scores of TPO; None: TRL's GRPO. At the rollout policy, "mean" needs whole groups, "ratio" not."""


def rows(rounds: int = ROUNDS) -> list[BenchmarkRow]:
    """Time of a step, of its sampling and of its rest, and peak memory: each of TRAINERS against TRL's GRPO."""
    if not (find_spec("trl") and find_spec("torch")):
        return []
    import torch

    torch.set_num_threads(1)
    steppers = {name: Stepper(score) for name, score in {**TRAINERS, "GRPO": None}.items()}
    times = _alternated(steppers, rounds)
    memory = {name: stepper.memory() for name, stepper in steppers.items()}
    found = []
    for name in TRAINERS:
        for what, part in (("whole step", 0), ("sampling", 1), ("all but sampling", 2)):
            pairs = [
                (mine[part], other[part])
                for mine, other in zip(times[name], times["GRPO"], strict=True)
            ]
            found.append(_row(f"{name}: {what}", pairs))
        found.append(_row(f"{name}: peak memory", [(memory[name], memory["GRPO"])], "MB"))
    return found


def _alternated(
    steppers: dict[str, Stepper], rounds: int
) -> dict[str, list[tuple[float, float, float]]]:
    """Times of each stepper, after a warm-up round; each round starts with the next stepper."""
    times: dict[str, list[tuple[float, float, float]]] = {name: [] for name in steppers}
    names = list(steppers)
    for turn in range(rounds + 1):
        at = turn % len(names)
        for name in names[at:] + names[:at]:
            times[name].append(steppers[name].step())
    return {name: found[1:] for name, found in times.items()}


def _row(name: str, pairs: list[tuple[float, float]], unit: str = "µs") -> BenchmarkRow:
    return BenchmarkRow(
        name=name,
        microseconds=1e6 * statistics.median(mine for mine, _ in pairs),
        baseline="TRL's GRPO, same config",
        baseline_microseconds=1e6 * statistics.median(other for _, other in pairs),
        ratio=statistics.median(mine / other for mine, other in pairs),
        unit=unit,
    )


class Stepper:
    """One trainer, driven step by step outside its loop."""

    def __init__(self, score: str | None) -> None:
        """score: of TPO; None for TRL's GRPO."""
        self.trainer = _trainer(score)
        self.trainer.create_optimizer()
        self.trainer.current_gradient_accumulation_steps = PROMPTS
        self.trainer.model.train()
        self.sampling = 0.0
        generate = self.trainer._generate

        def timed(*args: Any, **options: Any) -> Any:
            start = _clock()
            try:
                return generate(*args, **options)
            finally:
                self.sampling = _clock() - start

        self.trainer._generate = timed

    def step(self) -> tuple[float, float, float]:
        """Seconds of a step, of its sampling, and of the rest."""
        import torch

        torch.manual_seed(0)
        trainer = self.trainer
        prompts = [" ".join(f"w{p + i}" for i in range(PROMPT)) for p in range(PROMPTS)]
        batch = [{"prompt": prompt} for prompt in prompts for _ in range(K)]
        start = _clock()
        for _ in range(PROMPTS):
            trainer.training_step(trainer.model, batch, None)
        for callback in trainer.callback_handler.callbacks:
            callback.on_pre_optimizer_step(trainer.args, trainer.state, trainer.control)
        trainer.optimizer.step()
        trainer.model.zero_grad()
        trainer.state.global_step += 1
        whole = _clock() - start
        trainer._metrics["train"].clear()
        return whole, self.sampling, whole - self.sampling

    def memory(self) -> float:
        """Peak memory of a step in megabytes, on top of what was allocated before."""
        import torch

        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            self.step()
            return (torch.cuda.max_memory_allocated() - before) / 1e6
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
        ) as profile:
            self.step()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            profile.export_chrome_trace(str(path))
            events = json.loads(path.read_text())["traceEvents"]
        totals = [e["args"]["Total Allocated"] for e in events if e.get("name") == "[memory]"]
        return float(max(totals) - totals[0]) / 1e6


def _trainer(score: str | None) -> Any:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from tpo.llm import TargetPolicyConfig, TargetPolicyTrainer

    shared = tiny_llm.options(
        max_completion_length=TOKENS,
        disable_dropout=True,
        max_steps=1000,
    )
    make, config = (
        (GRPOTrainer, GRPOConfig(**shared))
        if score is None
        else (TargetPolicyTrainer, TargetPolicyConfig(**shared, score=score))
    )
    return make(
        tiny_llm.model(WORDS, 128, 4, intermediate_size=512, max_position_embeddings=256),
        _reward,
        config,
        train_dataset=Dataset.from_dict({"prompt": ["w1 w2 w3"] * PROMPTS}),
        processing_class=tiny_llm.tokenizer(WORDS),
    )


def _reward(completions: list[str], **_: Any) -> list[float]:
    return [float(len(text) % 2) for text in completions]


def _clock() -> float:
    """Seconds: process time on a CPU, which other processes do not affect; wall-clock time with a GPU."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()
