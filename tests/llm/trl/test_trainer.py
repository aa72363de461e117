"""The trainer beyond its gradient: options, failing rewards, the loss in evaluation."""

import asyncio
import functools
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trl")
import torch

import tpo
from support import tiny_model
from tpo.llm import TargetPolicyTrainer
from tpo.llm.trl.compat import check_hooks, regrouped


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"off_policy_mask_threshold": 0.5}, "off_policy_mask_threshold is 0.5.*cannot work.*=None"),
        ({"top_entropy_quantile": 0.2}, "top_entropy_quantile is 0.2.*Set top_entropy_quantile=1.0"),
        ({"entropy_coef": 0.1}, "entropy_coef is 0.1"),
        ({"loss_type": "grpo"}, "loss_type is 'grpo'.*objective='grpo'"),
        ({"importance_sampling_level": "sequence"}, "importance_sampling_level.*gspo"),
        ({"scale_rewards": "none"}, "scale_rewards is 'none'.*dr_grpo"),
        ({"epsilon": 0.1}, "epsilon is 0.1.*objective_options"),
        ({"sapo_temperature_pos": 2.0}, "sapo_temperature_pos is 2.0.*objective='sapo'.*tau_positive"),
        ({"sapo_temperature_neg": 2.0}, "sapo_temperature_neg is 2.0.*objective='sapo'.*tau_negative"),
        ({"vespo_k_pos": 1.0}, "vespo_k_pos is 1.0.*objective='vespo'.*k_positive"),
        ({"entropy_target": 0.5}, "entropy_target is 0.5.*no entropy bonus"),
        ({"mask_truncated_completions": True, "drop_truncated_completions": True}, "are both True: choose one"),
        ({"num_generations": 3}, "num_generations is 3.*8 completions.*6 or 9 completions, or num_generations=2"),
        ({"reward_timeout": 0}, "reward_timeout is 0, expected a number above 0, at most 1e6"),
        ({"num_generations": 1}, "num_generations is 1, and objective 'tpo' compares the candidates"),
        ({"objective": "gpro"}, "unknown objective 'gpro'.*Valid names: tpo"),
        ({"objective": "vapo"}, "'vapo' needs a critic.*'tpo', 'grpo' or 'rloo'"),
        ({"objective": "remax", "use_vllm": True}, "use_vllm is True, and ReMax takes a greedy.*'rloo'"),
        (
            {"objective": "ppo", "objective_options": {"advantage": "gae"}},
            "'ppo' with these options needs a critic",
        ),
        ({"objective": "grpo", "score": "mean"}, "score is 'mean', and objective 'grpo' has no score"),
        ({"objective": "grpo", "eta": 2.0}, "eta is 2.0, and objective 'grpo' has no eta"),
        ({"score": "median"}, "score is 'median'.*'ratio'"),
        ({"objective_options": {"beta": 0.1}}, "beta, which is an option of the config"),
    ],
)  # fmt: skip
def test_impossible_options_name_themselves_and_what_works(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        tiny_model.config(tmp_path, **changes)


def test_sequence_parallel_is_refused(tmp_path: Path) -> None:
    from accelerate.parallelism_config import ParallelismConfig

    with pytest.raises(ValueError, match="cp_size is 2.*Set cp_size=1"):
        tiny_model.config(tmp_path, parallelism_config=ParallelismConfig(cp_size=2))


def test_defaults_are_those_for_language_models(tmp_path: Path) -> None:
    assert tiny_model.config(tmp_path).build() == tpo.objective("tpo", score="ratio")
    assert tiny_model.config(tmp_path, objective="lpo").build() == tpo.objective("lpo")
    assert tiny_model.config(tmp_path, objective="grpo").build() == tpo.objective("grpo", beta=0.0)
    usual = tiny_model.config(tmp_path, objective="dr_grpo")
    assert usual.build().max_length == usual.max_completion_length
    own = tiny_model.config(tmp_path, objective="dr_grpo", objective_options={"max_length": 9})
    assert own.build().max_length == 9
    assert tiny_model.config(tmp_path, eta=0.5).build().eta == 0.5
    assert tiny_model.config(tmp_path).disable_dropout
    assert not tiny_model.config(tmp_path).mask_truncated_completions
    kl = tiny_model.config(tmp_path, objective="grpo", beta=0.1)
    assert kl.build() == tpo.objective("grpo", beta=0.1, kl_correction=kl.use_bias_correction_kl)
    assert kl.use_bias_correction_kl  # TRL's default


def test_a_plain_grpo_config_is_refused(tmp_path: Path) -> None:
    from trl import GRPOConfig

    with pytest.raises(
        TypeError, match="args is a GRPOConfig, expected a tpo.llm.TargetPolicyConfig"
    ):
        TargetPolicyTrainer(tiny_model.model(), tiny_model.reward, GRPOConfig(str(tmp_path), use_cpu=True, bf16=False))  # fmt: skip


def test_a_trl_without_a_hook_is_named() -> None:
    with pytest.raises(ImportError, match=r"has no .*_calculate_rewards.*install trl>=1.14"):
        check_hooks(object)


def test_regrouping_keeps_every_row_and_makes_groups_whole() -> None:
    rows = torch.tensor([5, 0, 7, 2, 1, 4, 3, 6])
    batches = [{"row": part, "x": 10 * part, "n": torch.tensor(8)} for part in rows.split(4)]
    found = regrouped(batches, 4)
    assert [sorted(batch["row"].tolist()) for batch in found] == [[4, 5, 6, 7], [0, 1, 2, 3]]
    assert all((batch["x"] == 10 * batch["row"]).all() for batch in found)


def test_cudnn_attends_for_samples_and_never_for_a_gradient(tmp_path: Path) -> None:
    made = tiny_model.trainer(tmp_path, max_steps=1)
    allowed: dict[str, bool] = {}
    sampler, forward = made.sampler, made.log_probs.of_batch
    assert sampler is not None

    def sampled(*given: Any) -> Any:
        allowed["sample"] = torch.backends.cuda.cudnn_sdp_enabled()
        return sampler(*given)

    def trained(*given: Any, **options: Any) -> Any:
        allowed["train"] = torch.backends.cuda.cudnn_sdp_enabled()
        return forward(*given, **options)

    sampled.sampled = 0  # type: ignore[attr-defined]
    made.sampler, made.log_probs.of_batch = sampled, trained
    made.train()
    assert allowed == {"sample": True, "train": False}
    assert torch.backends.cuda.cudnn_sdp_enabled()


def test_a_reward_that_raises_or_hangs_costs_its_rows_only(tmp_path: Path) -> None:
    calls: list[int] = []

    def moody(completions: list[str], **_: Any) -> list[float]:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("no such file")
        if len(calls) == 2:
            time.sleep(30)
        return tiny_model.reward(completions)

    made = tiny_model.trainer(tmp_path, moody, reward_timeout=0.5, max_steps=3)
    start = time.perf_counter()
    with pytest.warns(RuntimeWarning, match="could not be scored") as seen:
        made.train()
    assert time.perf_counter() - start < 25  # it did not wait for the one that hangs
    assert {str(w.message).split("(")[1].split(":")[0] for w in seen if "scored" in str(w.message)} == {"raised", "hung"}  # fmt: skip
    failures = [
        row["reward_failures"] for row in made.state.log_history if "reward_failures" in row
    ]
    assert failures == [1.0, 1.0, 0.0]
    assert tiny_model.weights(made).isfinite().all()


@pytest.mark.filterwarnings("ignore:a completion could not be scored:RuntimeWarning")
def test_a_reward_that_never_scores_ends_the_run(tmp_path: Path) -> None:
    def takes_too_little(completions: list[str]) -> list[float]:
        return tiny_model.reward(completions)

    made = tiny_model.trainer(tmp_path, takes_too_little, max_steps=9)
    with pytest.raises(
        RuntimeError, match=r"of 3 rollout batches could be scored \(raised: takes_too"
    ):
        made.train()


def with_alarm(completions: list[str], **_: Any) -> list[float]:
    """As math-verify limits its time: only in the main thread."""
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(60)
    try:
        return tiny_model.reward(completions)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_a_reward_with_an_alarm_runs_in_the_main_thread(tmp_path: Path) -> None:
    made = tiny_model.trainer(tmp_path, with_alarm, max_steps=1)
    made.train()
    row = made.state.log_history[0]
    assert row["reward_failures"] == row["reward_failures/with_alarm"] == 0
    assert row["rewards/with_alarm/mean"] > 0


@pytest.mark.filterwarnings("ignore:a completion could not be scored:RuntimeWarning")
@pytest.mark.parametrize("name", ["broken", "reward#2"])
def test_one_failing_reward_of_two_is_reported_by_name(tmp_path: Path, name: str) -> None:
    """Also if another function has the same name."""

    def broken(completions: list[str], **_: Any) -> list[float]:
        raise KeyError("solution")

    def partly(completions: list[str], **_: Any) -> list[float | None]:
        """Does not apply to half of the rows, which is no failure."""
        return [None if i % 2 else x for i, x in enumerate(tiny_model.reward(completions))]

    broken.__name__ = name.partition("#")[0]
    made = tiny_model.trainer(tmp_path, [tiny_model.reward, broken, partly], max_steps=4)
    with pytest.warns(
        RuntimeWarning, match=f"reward function {name} failed on every.*3 rollout.*'solution'"
    ) as seen:
        made.train()
    assert sum("failed on every" in str(w.message) for w in seen) == 1
    for row in made.state.log_history[:4]:
        assert row["reward_failures"] == 0
        assert row[f"reward_failures/{name}"] == 1
        assert row["reward_failures/reward"] == row["reward_failures/partly"] == 0


@pytest.mark.filterwarnings("ignore:a completion could not be scored:RuntimeWarning")
def test_an_async_reward_that_raises_costs_its_rows_only(tmp_path: Path) -> None:
    calls: list[int] = []

    async def moody(completions: list[str], **_: Any) -> list[float]:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("no connection")
        if len(calls) == 2:
            await asyncio.sleep(60)
        return tiny_model.reward(completions)

    made = tiny_model.trainer(tmp_path, functools.partial(moody), max_steps=3, reward_timeout=0.5)
    made.train()
    log = made.state.log_history[:3]
    assert [row["reward_failures"] for row in log] == [1.0, 1.0, 0.0]
    assert [row["reward_failures/moody"] for row in log] == [1.0, 1.0, 0.0]
    failures = made.reward_funcs[0].failures
    assert failures.counts == {"raised": 1, "hung": 1}
    assert failures.first["raised"] == "moody: RuntimeError: no connection"


def test_a_reward_model_is_called_as_trl_does(tmp_path: Path) -> None:
    class Judge(torch.nn.Module):
        """Its reward is NaN for the first row."""

        config = SimpleNamespace(_name_or_path="us/judge")

        def forward(self, input_ids: torch.Tensor, **_: Any) -> Any:
            logits = input_ids.float().mean(-1, keepdim=True)
            logits[0] = torch.nan
            return SimpleNamespace(logits=logits)

    made = TargetPolicyTrainer(
        tiny_model.model(),
        [Judge(), tiny_model.reward],
        tiny_model.config(tmp_path, max_steps=1),
        train_dataset=tiny_model.prompts(),
        processing_class=tiny_model.tokenizer(),
        reward_processing_classes=[tiny_model.tokenizer(), None],
    )
    made.train()
    row = made.state.log_history[0]
    assert row["reward_failures/judge"] == 1 / 8
    assert row["rewards/judge/mean"] > 1


@pytest.mark.parametrize("name", ["tpo", "grpo"])
def test_the_eval_loss_is_the_objectives_own(tmp_path: Path, name: str) -> None:
    """A mean of the loss over the groups that were sampled, of 2 completions each, with its KL."""
    made = TargetPolicyTrainer(
        tiny_model.saved(tmp_path / "model"), tiny_model.reward,
        tiny_model.config(tmp_path / "out", objective=name, beta=0.1, num_generations_eval=2,
                          per_device_eval_batch_size=4),
        train_dataset=tiny_model.prompts(), eval_dataset=tiny_model.prompts(4),
        processing_class=tiny_model.tokenizer(),
    )  # fmt: skip
    with torch.no_grad():
        for weight in made.model.parameters():
            weight += 0.02 * torch.randn_like(weight)
    groups = []
    kept = made._new_rollouts

    def keep(*given: Any) -> Any:
        groups.append(kept(*given))
        return groups[-1]

    made._new_rollouts = keep  # type: ignore[method-assign]
    found = made.evaluate()
    assert [g.shape[:2] for g in groups] == [(2, 2), (2, 2)]
    expected, kl = 0.0, 0.0
    for g in groups:
        options = {"score": "ratio"} if name == "tpo" else {"beta": 0.0}
        objective = tpo.objective(name, **options)
        old, mask = g.groups.log_probs_old, g.groups.mask
        d = old - g.groups.log_probs_ref
        k3 = torch.exp(-d) + d - 1
        per_candidate = k3.sum(-1) / mask.sum(-1)
        expected += (
            objective.loss(old, objective.prepare(g.groups)) + 0.1 * per_candidate.mean()
        ) / 2
        kl += float(k3.sum() / mask.sum()) / 2
    assert found["eval_loss"] == pytest.approx(float(expected), rel=1e-5)
    assert found["eval_kl"] == pytest.approx(kl, rel=1e-4)
    assert kl > 0.001
