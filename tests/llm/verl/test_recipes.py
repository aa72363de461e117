"""Each recipe against verl's own config schema; its data through verl's dataset; its scores through verl's hook."""

import asyncio
import json
import math
import os
import shlex

import pytest
from configs import composed
from omegaconf import OmegaConf
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from verl.trainer.ppo.reward import get_custom_reward_fn
from verl.trainer.ppo.utils import create_rl_dataset, need_critic, need_reference_policy
from verl.trainer.ppo.v1 import get_trainer_cls
from verl.utils import config as verl_config
from verl.utils.config import omega_conf_to_dataclass

from tpo.cli import main
from tpo.cli.verl import RECIPES
from tpo.llm.tasks import task
from tpo.llm.verl.data import PAPER, ground_truth, prepare

MODULE = "tpo.llm.verl.recipes"


def recipe(name, *overrides):
    return composed(*overrides, module=MODULE, name=name, base=())


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_valid_and_is_the_papers(name):
    config = recipe(name, "trainer.n_gpus_per_node=8", "actor_rollout_ref.model.lora.merge=True")
    verl_config.validate_config(
        config=config,
        use_reference_policy=need_reference_policy(config),
        use_critic=need_critic(config),
    )
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    assert (actor.optim.optimizer, actor.optim.lr) == ("AdamW", 1e-5)
    assert (config.data.train_batch_size, config.actor_rollout_ref.rollout.n) == (16, 16)
    assert config.actor_rollout_ref.model.path == "Qwen/Qwen3-1.7B"
    paper = (32, True, 1e-3) if name == "gsm8k" else (0, False, 1e-3)
    model = config.actor_rollout_ref.model
    assert (model.lora_rank, actor.use_kl_loss, actor.kl_loss_coef) == paper
    made = get_trainer_cls(config.trainer.v1.trainer_mode)(config=config)
    assert (made.settings.objective, made.updates.total) == ("tpo", 1)
    assert made.use_reference_policy == (name == "gsm8k")


def test_a_misspelt_option_of_verl_is_an_error():
    with pytest.raises(Exception, match="train_batch_sizes"):
        recipe("gsm8k", "data.train_batch_sizes=4")


def test_every_recipe_has_its_data():
    assert set(PAPER) == set(RECIPES)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A little of each task, GSM8K from files of its own shape."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "raw").mkdir()
    for first, part in enumerate(("train", "test")):
        rows = [
            {"question": f"What is {i} + 1?", "answer": f"It is one more.\n#### {i + 1}"}
            for i in range(4 * first, 4 * first + 4)
        ]
        (folder / "raw" / f"{part}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    prepare("gsm8k", folder / "gsm8k", name=f"gsm8k:{folder / 'raw'}", held_out=2)
    for name in ("graph_color", "knights_knaves"):
        prepare(name, folder / name, size=3, held_out=2)
    return folder


@pytest.fixture(scope="module")
def tokenizer():
    inner = Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1, "w": 2}, unk_token="w"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    found = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="w"
    )
    found.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    return found


def answer_of(name, row):
    truth = json.loads(row["reward_model"]["ground_truth"])
    if name == "gsm8k":
        return truth["given"]["answer"].rpartition("####")[2]
    import reasoning_gym

    made = reasoning_gym.create_dataset(truth["scorer"]["dataset"], **truth["scorer"]["options"])
    item = made[truth["given"]["index"]]
    right = item["answer"] or json.dumps(item["metadata"]["possible_answer"])
    return f"So <answer>{right}</answer>"


@pytest.mark.parametrize("name", RECIPES)
def test_data_and_scores_pass_through_verls_own_code(name, data, tokenizer, monkeypatch):
    config = recipe(
        name,
        f"data.train_files={data}/{name}/train.parquet",
        f"data.val_files={data}/{name}/test.parquet",
    )
    monkeypatch.setenv("HF_DATASETS_CACHE", str(data / "cache"))
    sets = [
        create_rl_dataset(files, config.data, tokenizer, None, is_train=train)
        for files, train in ((config.data.train_files, True), (config.data.val_files, False))
    ]
    assert [len(s) for s in sets] == [4 if name == "gsm8k" else 3, 2]
    row = sets[0][0]
    assert row["raw_prompt"][0]["role"] == "user"
    assert len(row["raw_prompt"][0]["content"]) > 10
    score = get_custom_reward_fn(config)
    assert not asyncio.iscoroutinefunction(score)
    truth = row["reward_model"]["ground_truth"]
    extra = row["extra_info"]

    def scored(text, truth=truth, extra=extra):
        return score(data_source=name, solution_str=text, ground_truth=truth, extra_info=extra)

    assert scored(answer_of(name, row)) == 1.0
    assert scored("I do not know") < 0.5


def test_what_cannot_be_scored_is_left_out_in_training_and_0_when_held_out():
    config = recipe("gsm8k")
    score = get_custom_reward_fn(config)
    truth = json.dumps(
        {"scorer": {"name": "number"}, "threshold": None, "given": {"answer": "none"}}
    )
    with pytest.warns(RuntimeWarning, match="could not be scored"):
        lost = score(
            data_source="x", solution_str="1", ground_truth=truth, extra_info={"split": "train"}
        )
    assert math.isnan(lost)
    assert (
        score(data_source="x", solution_str="1", ground_truth=truth, extra_info={"split": "test"})
        == 0.0
    )


def test_a_row_runs_no_code(tmp_path):
    made = tmp_path / "made"
    truth = {
        "scorer": {"name": "timeit:timeit"},
        "threshold": None,
        "given": {"answer": f"open({str(made)!r}, 'w').close()"},
    }
    for options in ([], ["+reward.custom_reward_function.reward_kwargs.scorer=mine:score"]):
        score = get_custom_reward_fn(recipe("gsm8k", *options))
        with pytest.raises(
            ValueError, match=r"'timeit:timeit'.*reward_kwargs\.scorer=timeit:timeit"
        ):
            score(data_source="x", solution_str="pass", ground_truth=json.dumps(truth))
        assert not made.exists()


@pytest.mark.parametrize(
    "scorer",
    [
        {
            "name": "simple_integration",
            "dataset": "simple_integration",
            "options": {"size": 1, "seed": 0, "symbols": ["__import__('os').system('touch MADE')"]},
            "extract": "number",
        },
        {"name": "chain_sum", "dataset": "chain_sum", "options": {"x().y": 1}},
        {"name": {"name": "exact"}},
        "exact",
    ],
)
def test_neither_the_options_of_a_dataset_nor_a_broken_row_run_code(tmp_path, scorer):
    made = tmp_path / "made"
    text = json.dumps({"scorer": scorer, "threshold": None, "given": {"index": 0}})
    score = get_custom_reward_fn(recipe("gsm8k"))
    with pytest.raises(ValueError, match="a row's ground_truth holds"):
        score(
            data_source="x",
            solution_str="I think it is 42.",
            ground_truth=text.replace("MADE", str(made)),
        )
    assert not made.exists()


def test_a_scorer_of_ones_own_is_named_in_the_config(tmp_path, monkeypatch):
    (tmp_path / "own_scorer.py").write_text(
        "def score(completion, answer):\n    return len(completion) / len(answer)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    rows = [{"prompt": f"Say {x}", "answer": x} for x in ("four", "five", "nine")]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    made = task(str(tmp_path / "own.jsonl"), scorer="own_scorer:score", held_out=1)
    truth = ground_truth(made, made.train[0])
    option = "+reward.custom_reward_function.reward_kwargs.scorer=own_scorer:score"
    score = get_custom_reward_fn(recipe("gsm8k", option))
    assert score(data_source="x", solution_str="ab", ground_truth=truth) == 0.5
    with pytest.raises(ValueError, match=r"own_scorer:score.*set \+reward"):
        get_custom_reward_fn(recipe("gsm8k"))(
            data_source="x", solution_str="ab", ground_truth=truth
        )


def test_the_command_is_verls_own(capsys):
    assert main(["verl", "gsm8k", "trainer.n_gpus_per_node=8", "--dry-run"]) == 0
    command = shlex.split(capsys.readouterr().out)
    assert command[1:7] == [
        "-m",
        "verl.trainer.main_ppo",
        "--config-path",
        f"pkg://{MODULE}",
        "--config-name",
        "gsm8k",
    ]
    assert command[-1] == "trainer.n_gpus_per_node=8"
    assert main(["verl", "gsm8", "--dry-run"]) == 2
    assert "expected one of 'gsm8k'" in capsys.readouterr().err
    assert OmegaConf.select(recipe(*command[6:7], *command[7:]), "trainer.n_gpus_per_node") == 8
