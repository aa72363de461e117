"""An update by verl's real trainer, TransferQueue, actor worker and FSDP2 engine, on the CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

HERE = Path(__file__).parent
MINI_BATCHES = "actor_rollout_ref.actor.ppo_mini_batch_size=2"
EPOCHS = "actor_rollout_ref.actor.ppo_epochs=2"
MEAN = "+trainer.v1.tpo.score=mean"
RUNS = {
    "tpo": [],
    "tpo, mean score, 2 mini-batches, 2 epochs": [MINI_BATCHES, EPOCHS, MEAN],
    "grpo, 2 mini-batches": [MINI_BATCHES, "+trainer.v1.tpo.objective=grpo"],
    "vapo, verl's critic": ["+trainer.v1.tpo.objective=vapo"],
}
ZERO_GRADIENT = {
    "one update": ([], []),
    "grpo": ([], ["+trainer.v1.tpo.objective=grpo"]),
    "2 mini-batches, 2 epochs": ([], [MINI_BATCHES, EPOCHS, MEAN]),
    "the second of 2 mini-batches": ([0, 1], [MINI_BATCHES, "+trainer.v1.tpo.objective=grpo"]),
    "three of 4 mini-batches": ([3], ["actor_rollout_ref.actor.ppo_mini_batch_size=1", MEAN]),
    "not skipped": ([], ["+trainer.v1.tpo.skip_zero_gradient=False"]),
    "with an entropy bonus": ([], ["actor_rollout_ref.actor.entropy_coeff=0.1"]),
}
"""The groups whose scores differ, and overrides."""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    LlamaForCausalLM(
        LlamaConfig(vocab_size=32, num_attention_heads=2, initializer_range=0.2, **shape)
    ).save_pretrained(folder)
    words = {"<pad>": 0, "<eos>": 1, **{f"w{i}": i + 2 for i in range(30)}}
    inner = Tokenizer(models.WordLevel(words, unk_token="w0"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="w0"
    ).save_pretrained(folder)
    return folder


def printed(script, folder, *arguments):
    run = subprocess.run(
        [sys.executable, HERE / script, folder, *arguments],
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=400,
        cwd=folder,
    )
    lines = [line for line in run.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, run.stderr[-3000:]
    return [json.loads(line[7:]) for line in lines]


@pytest.fixture(scope="module")
def results(model):
    runs = [*(([0, 1, 2, 3], overrides) for overrides in RUNS.values()), *ZERO_GRADIENT.values()]
    found = printed("real_update.py", model, *map(json.dumps, runs))
    return dict(zip([*RUNS, *ZERO_GRADIENT], found, strict=True))


def test_groups_across_two_ranks_of_the_engine_have_the_same_gradient(model):
    (found,) = printed("two_ranks.py", model)
    assert found["ranks"] == 2
    assert found["error"] < 1e-5
    assert found["size"] > 1e-3


@pytest.mark.parametrize("run", RUNS)
def test_every_step_has_the_gradient_of_the_objective(results, run):
    found = results[run]
    assert max(found["errors"]) < 1e-5  # of a float32 model beside its float64 copy
    assert min(found["sizes"]) > 1e-3
    assert found["moved"] > 1e-3


def test_verls_critic_comes_nearer_to_the_objectives_returns(results):
    before, after = results["vapo, verl's critic"]["value_errors"]
    assert after < 0.9 * before


def test_updates_take_whole_groups_in_turn(results):
    assert results["tpo"]["groups"] == [[0, 1, 2, 3]]
    first, second, *again = results["tpo, mean score, 2 mini-batches, 2 epochs"]["groups"]
    assert sorted(first + second) == [0, 1, 2, 3]
    assert again == [first, second]


def test_verl_padded_the_lost_session_and_reads_no_nan(results):
    for found in map(results.get, RUNS):
        assert found["zero_gradient_steps"] == 0
        assert found["padding"] == 1
        assert found["finite"]
        assert "tpo/groups/excluded" in found["metrics"]


@pytest.mark.parametrize(
    ("run", "skipped", "updates"),
    [
        ("one update", 1, []),
        ("grpo", 1, []),
        ("2 mini-batches, 2 epochs", 4, []),
        ("the second of 2 mini-batches", 1, [[0, 1]]),
        ("three of 4 mini-batches", 3, [[3]]),
        ("not skipped", 0, [[0, 1, 2, 3]]),
        ("with an entropy bonus", 0, [[0, 1, 2, 3]]),
    ],
)
def test_no_update_is_made_without_a_gradient(results, run, skipped, updates):
    found = results[run]
    assert found["zero_gradient_steps"] == skipped
    assert found["groups"] == updates
    assert (found["moved"] > 0) == bool(updates)  # not skipped, by verl's weight decay
