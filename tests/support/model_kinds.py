"""Tiny random models of each architecture that the fast sampler knows."""

from typing import Any

from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
    set_seed,
)

SHAPE = {
    "vocab_size": 12,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "max_position_embeddings": 64,
    "initializer_range": 0.8,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 1,
}
CONFIGS = {
    "llama": LlamaConfig(**SHAPE),
    "mistral": MistralConfig(**SHAPE, sliding_window=None),
    "qwen2": Qwen2Config(**SHAPE),
    "qwen3": Qwen3Config(**SHAPE),
}


def made(config: Any) -> Any:
    set_seed(0)
    return AutoModelForCausalLM.from_config(config).eval()
