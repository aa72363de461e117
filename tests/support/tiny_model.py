"""A tiny random language model, prompts and a reward; for tests of everything around a real one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed

from tpo.llm import TargetPolicyConfig, TargetPolicyTrainer

WORDS = [str(i) for i in range(10)] + [f"w{i}" for i in range(84)]
PAD, EOS, UNK = len(WORDS), len(WORDS) + 1, len(WORDS) + 2


def tokenizer() -> Any:
    """One word, one token; 0 to 9 are words."""
    vocab = {word: i for i, word in enumerate([*WORDS, "<pad>", "<eos>", "<unk>"])}
    inner = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.decoder = decoders.WordPiece(prefix="##")
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )


def model(seed: int = 0, spread: float = 0.2) -> Any:
    """Two layers of width 32, with weights large enough that tokens differ in probability."""
    set_seed(seed)
    config = LlamaConfig(
        vocab_size=len(WORDS) + 3,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=128,
        initializer_range=spread,
        pad_token_id=PAD,
        eos_token_id=EOS,
        bos_token_id=EOS,
    )
    return LlamaForCausalLM(config)


def saved(folder: Path, seed: int = 0) -> str:
    """The model and its tokenizer as a folder that `from_pretrained` reads."""
    model(seed).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


def prompts(n: int = 64) -> Dataset:
    return Dataset.from_dict({"prompt": [f"w{i} w{(7 * i) % 80} {i % 10}" for i in range(n)]})


def reward(completions: list[str], **_: Any) -> list[float]:
    """Depends on the text alone: the share of words that are digits or start with w1."""
    return [
        sum(word.isdigit() or word.startswith("w1") for word in text.split())
        / (len(text.split()) or 1)
        for text in completions
    ]


def config(folder: Path | str, **changes: Any) -> TargetPolicyConfig:
    """float32 on the CPU, 4 completions of up to 6 tokens per prompt, no clipping of gradients."""
    options: dict[str, Any] = {
        "output_dir": str(folder),
        "use_cpu": True,
        "bf16": False,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "logging_steps": 1,
        "max_steps": 3,
        "learning_rate": 0.01,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0,
        "gradient_checkpointing": False,
        "num_generations": 4,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "max_completion_length": 6,
    }
    return TargetPolicyConfig(**{**options, **changes})


def trainer(folder: Path | str, reward: Any = reward, **changes: Any) -> TargetPolicyTrainer:
    """A trainer of the tiny model, with changes of its config."""
    return TargetPolicyTrainer(
        model(),
        reward,
        config(folder, **changes),
        train_dataset=prompts(),
        processing_class=tokenizer(),
    )


def weights(made: TargetPolicyTrainer) -> torch.Tensor:
    return flat(made.model.parameters())


def flat(parameters: Any) -> torch.Tensor:
    return torch.cat([x.detach().double().reshape(-1) for x in parameters])
