"""Rollouts by vLLM, for real; `make test-vllm` runs this in an environment of its own."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

for name, value in {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
}.items():
    os.environ.setdefault(name, value)

pytestmark = [
    pytest.mark.skipif(
        find_spec("vllm") is None, reason="make test-vllm has an environment for it"
    ),
    pytest.mark.filterwarnings("ignore"),  # vLLM's imports warn by the dozen
]


def saved(folder: Path) -> str:
    """Heads of 32, the smallest that vLLM's attention takes."""
    from transformers import LlamaConfig, LlamaForCausalLM, set_seed

    from support import tiny_model

    set_seed(0)
    config = LlamaConfig(
        vocab_size=len(tiny_model.WORDS) + 3, hidden_size=64, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=128, initializer_range=0.2, dtype="float32",
        pad_token_id=tiny_model.PAD, eos_token_id=tiny_model.EOS, bos_token_id=tiny_model.EOS,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    tiny_model.tokenizer().save_pretrained(folder)
    return str(folder)


def unpacked(layer: Any, remove_weight: bool) -> None:
    """On a CPU vLLM repacks its weights, after which none can be loaded; on a GPU it does not."""
    from torch.nn.functional import linear

    layer.cpu_linear = linear


def test_vllm_rollouts_train_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sampled by vLLM, the gradient is still that of the objective over whole groups, snapshot and all."""
    import torch
    import vllm.model_executor.layers.utils as layers

    from support import tiny_model
    from support.exact_gradient import Checked

    monkeypatch.setattr(layers, "dispatch_cpu_unquantized_gemm", unpacked)

    options: dict[str, Any] = {
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_max_model_length": 64,
        "score": "mean",
        "num_iterations": 2,
        "max_steps": 4,
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 4,
        "model_init_kwargs": {"dtype": "float32"},
    }
    trainer = Checked(
        saved(tmp_path / "model"),
        tiny_model.reward,
        tiny_model.config(tmp_path / "out", **options),
        train_dataset=tiny_model.prompts(),
        processing_class=tiny_model.tokenizer(),
    )
    trainer.train()
    assert len(trainer.errors) == 4
    assert max(trainer.errors) < 1e-5
    sampled = trainer.rollouts.groups.log_probs_rollout
    assert sampled is not None
    # the engines agree on what was sampled, so no candidate is dropped
    old, mask = trainer.rollouts.groups.log_probs_old, trainer.rollouts.groups.mask
    assert (old - sampled)[mask].abs().max() < 0.2  # vLLM samples in half precision
    assert trainer.rollouts.groups.valid.all()
    assert torch.isfinite(tiny_model.flat(trainer.model.parameters())).all()
