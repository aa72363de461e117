"""Shared by benchmarks of language models: a small random model, a tokenizer of words, and options of TRL."""

from __future__ import annotations

import tempfile
from typing import Any

PROMPTS, K = 4, 8
"""prompts of a rollout batch, and completions per prompt"""


def model(words: int, width: int, layers: int, seed: int = 0, **more: Any) -> Any:
    """A random Llama with a vocabulary of that many words; `more` are further options of its config."""
    from transformers import LlamaConfig, LlamaForCausalLM, set_seed

    set_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=words + 2,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=4,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=1,
            **more,
        )
    )


def tokenizer(words: int) -> Any:
    """A tokenizer with one token per word: w0, w1, ..."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"<pad>": 0, "<eos>": 1, **{f"w{i}": i + 2 for i in range(words)}}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="w0"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="w0"
    )


def options(**more: Any) -> dict[str, Any]:
    """Options of TRL's config: one group per micro-batch, float32 on the CPU, no checkpoints."""
    return {
        "output_dir": tempfile.gettempdir(),
        "save_strategy": "no",
        "report_to": "none",
        "per_device_train_batch_size": K,
        "gradient_accumulation_steps": PROMPTS,
        "num_generations": K,
        "gradient_checkpointing": False,
        "use_cpu": True,
        "bf16": False,
        **more,
    }
