"""What the benchmarks of language models share: a small random model, one word a token, and TRL's options."""

from __future__ import annotations

import tempfile
from typing import Any

PROMPTS, K = 4, 8
"""of a rollout batch: prompts, and completions of each"""


def model(words: int, width: int, layers: int, seed: int = 0, **more: Any) -> Any:
    """A random Llama that reads and writes so many words, with `more` of its options."""
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
    """One word, one token: w0, w1, ..."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"<pad>": 0, "<eos>": 1, **{f"w{i}": i + 2 for i in range(words)}}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="w0"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="w0"
    )


def options(**more: Any) -> dict[str, Any]:
    """Options of TRL's config: a micro-batch is a group, float32 on the CPU, nothing written."""
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
