"""An optimiser step of `TargetPolicyTrainer` against TRL's GRPO with the same config: time and peak memory.

Two trainers with the same random model take turns, step by step. Completions have a fixed length, so that both
do the same work; a step runs from sampling to the optimiser's update.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tpo.benchmarks.timing import Row

PROMPTS, K, TOKENS, VOCABULARY = 4, 8, 48, 4096
ROUNDS = 12
SCORES = ("ratio", "mean")


def rows(rounds: int = ROUNDS) -> list[Row]:
    """Whole step, step without sampling, and peak memory, for a ratio score and a coupled one."""
    if not (find_spec("trl") and find_spec("torch")):
        return []
    import torch

    torch.set_num_threads(1)
    found = []
    for score in SCORES:
        ours, grpo = Stepper(score), Stepper(None)
        pairs = [(ours.step(), grpo.step()) for _ in range(rounds + 1)][1:]
        for name, part in (("whole step", 0), ("step less sampling", 1)):
            times = [(mine[part], other[part]) for mine, other in pairs]
            found.append(_row(f"tpo {score}: {name}", times))
        found.append(_row(f"tpo {score}: peak memory", [(ours.memory(), grpo.memory())], "MB"))
    return found


def _row(name: str, pairs: list[tuple[float, float]], unit: str = "µs") -> Row:
    return Row(
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
        """`score` of TPO, or None for TRL's own GRPO."""
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

    def step(self) -> tuple[float, float]:
        """Seconds of a whole step, and of all but sampling."""
        import torch

        torch.manual_seed(0)
        trainer = self.trainer
        batch = [{"prompt": f"w{p} w{p + 1} w{p + 2}"} for p in range(PROMPTS) for _ in range(K)]
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
        return whole, whole - self.sampling

    def memory(self) -> float:
        """Megabytes that a step adds at its peak."""
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
    from transformers import LlamaConfig, LlamaForCausalLM, set_seed
    from trl import GRPOConfig, GRPOTrainer

    from tpo.llm import TargetPolicyConfig, TargetPolicyTrainer

    set_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=128,
            intermediate_size=512,
            num_hidden_layers=4,
            num_attention_heads=4,
            max_position_embeddings=256,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=1,
        )
    )
    options: dict[str, Any] = {
        "output_dir": tempfile.mkdtemp(prefix="tpo-bench-"),
        "per_device_train_batch_size": K,
        "gradient_accumulation_steps": PROMPTS,
        "num_generations": K,
        "max_completion_length": TOKENS,
        "generation_kwargs": {"min_new_tokens": TOKENS},
        "mask_truncated_completions": False,
        "disable_dropout": True,
        "gradient_checkpointing": False,
        "use_cpu": True,
        "bf16": False,
        "report_to": "none",
        "max_steps": 1000,
    }
    own: dict[str, Any] = {} if score is None else {"score": score}
    make, config = (
        (GRPOTrainer, GRPOConfig) if score is None else (TargetPolicyTrainer, TargetPolicyConfig)
    )
    data = Dataset.from_dict({"prompt": ["w1 w2 w3"] * PROMPTS})
    return make(
        model,
        _reward,
        config(**options, **own),
        train_dataset=data,
        processing_class=word_tokenizer(VOCABULARY - 2),
    )


def _reward(completions: list[str], **_: Any) -> list[float]:
    return [float(len(text) % 2) for text in completions]


def word_tokenizer(words: int) -> Any:
    """One word, one token: w0, w1, ..."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"<pad>": 0, "<eos>": 1, **{f"w{i}": i + 2 for i in range(words)}}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="w0"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="w0"
    )


def _clock() -> float:
    """Seconds of this process on a CPU, where others take turns with it; of the wall beside a GPU."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()
