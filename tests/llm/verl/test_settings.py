"""Wrong options are errors in the trainer's constructor, before a worker starts; right ones reach verl."""

import logging

import pytest
from configs import composed
from verl.trainer.ppo.utils import need_critic
from verl.trainer.ppo.v1 import get_trainer_cls
from verl.utils.config import omega_conf_to_dataclass

import tpo.llm.verl.trainer  # noqa: F401 - registers


def trainer(*overrides):
    config = composed(*overrides)
    return get_trainer_cls(config.trainer.v1.trainer_mode)(config=config)


def test_one_line_makes_verl_train_tpo():
    made = trainer()
    assert made.objective.score == "ratio"
    assert made.updates.total == 1
    assert made.trainer_mode == "sync"
    assert not made.use_critic
    assert not need_critic(made.config)
    actor = omega_conf_to_dataclass(made.config.actor_rollout_ref.actor)
    assert actor.policy_loss.loss_mode == "tpo"
    assert list(made.config.actor_rollout_ref.model.external_lib) == ["tpo.llm.verl.plugin"]


@pytest.mark.parametrize(
    ("line", "name"),
    [("grpo", "GRPO"), ("dapo", "DAPO"), ("rloo", "RLOO"), ("lpo", "LPO"), ("gspo", "GSPO")],
)
def test_a_second_line_chooses_another_objective(line, name):
    assert type(trainer(f"+trainer.v1.tpo.objective={line}").objective).__name__ == name


def test_options_reach_the_objective():
    made = trainer(
        "+trainer.v1.tpo.objective=grpo", "+trainer.v1.tpo.objective_options={clip: 0.1}"
    )
    assert (made.objective.clip, made.objective.beta) == (0.1, 0.0)
    assert trainer("+trainer.v1.tpo.eta=2.0", "+trainer.v1.tpo.score=mean").objective.eta == 2.0


def test_former_names_of_options_are_still_read():
    assert not trainer("+trainer.v1.tpo.skip_silent=False").settings.skip_zero_gradient
    assert trainer("+trainer.v1.tpo.objective_options={ties: free}").objective.ties == "pooled"
    both = ("+trainer.v1.tpo.skip_silent=False", "+trainer.v1.tpo.skip_zero_gradient=False")
    with pytest.raises(ValueError, match="two names of one option: drop 'skip_silent'"):
        trainer(*both)


@pytest.mark.parametrize(
    "override",
    [
        "objective=vapo",
        "objective=a2c",
        "objective=ppo +trainer.v1.tpo.objective_options={advantage:gae}",
    ],
)
def test_an_objective_with_values_has_verls_critic(override):
    made = trainer(*f"+trainer.v1.tpo.{override}".split())
    assert made.objective.uses_values
    assert made.use_critic
    assert need_critic(made.config)


def test_what_compares_a_whole_batch_is_updated_as_one():
    objective = "+trainer.v1.tpo.objective=m2po"
    assert trainer(objective, "actor_rollout_ref.actor.ppo_mini_batch_size=8").updates.total == 1
    with pytest.raises(ValueError, match="compares the tokens of a whole rollout batch"):
        trainer(objective, "actor_rollout_ref.actor.ppo_mini_batch_size=4")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("+trainer.v1.tpo.objektive=grpo", "no option 'objektive'. Did you mean 'objective'"),
        ("+trainer.v1.tpo.objective=gpro", "unknown objective 'gpro'. Did you mean 'grpo'"),
        ("+trainer.v1.tpo.objective=dpo", "DPO measures from the reference policy"),
        (
            "+trainer.v1.tpo.objective_options={eta_final: 0.1}",
            "needs how much of training is done",
        ),
        (
            "+trainer.v1.tpo.objective_options={task_logits: [1.0, 0.0]}",
            "needs the tasks of prompts",
        ),
        ("+trainer.v1.tpo.objective=remax", "needs baseline"),
        (
            "+trainer.v1.tpo.objective_options={correct:tis}",
            "holds correct.*does not read the sampler's",
        ),
        ("+trainer.v1.tpo.objective_options={clipp: 1}", "tpo has no option 'clipp'"),
        ("+trainer.v1.tpo.skip_zero_gradient=1", "skip_zero_gradient is 1, expected True or False"),
        ("+trainer.v1.tpo.objective_options={beta: 0.1}", "use_kl_loss=True"),
        ("+trainer.v1.tpo.eta=-1", "trainer.v1.tpo.eta is -1, expected a finite number above 0"),
        ("+trainer.v1.tpo.score=mode", "trainer.v1.tpo.score is 'mode', expected one of 'sum'"),
        ("algorithm.use_kl_in_reward=True", "algorithm.use_kl_in_reward is True"),
        ("critic.enable=True", "critic.enable is True"),
        ("actor_rollout_ref.actor.policy_loss.loss_mode=gspo", "loss_mode is 'gspo'"),
        ("algorithm.rollout_correction.rollout_is=token", "breaks Σ"),
        ("actor_rollout_ref.rollout.n=1", "rollout.n is 1"),
        ("actor_rollout_ref.actor.ppo_mini_batch_size=3", "Set it to 2, or to 8 for one update"),
        ("actor_rollout_ref.actor.ppo_mini_batch_size=16", "Set it to 8"),
    ],
)
def test_impossible_options_are_errors_at_the_start(override, message):
    with pytest.raises((ValueError, TypeError), match=message.replace("(", "\\(")):
        trainer(override)


def test_several_updates_take_whole_groups_that_divide_over_the_ranks():
    made = trainer(
        "actor_rollout_ref.actor.ppo_mini_batch_size=2", "actor_rollout_ref.actor.ppo_epochs=3"
    )
    assert (made.updates.mini_batches, made.updates.epochs) == (4, 3)
    assert made.config.actor_rollout_ref.actor.ppo_epochs == 1
    with pytest.raises(
        ValueError, match="2 whole groups of rollout.n=3, 6 rows, .* 4 data-parallel ranks"
    ):
        trainer(
            "actor_rollout_ref.actor.ppo_mini_batch_size=2",
            "actor_rollout_ref.rollout.n=3",
            "trainer.n_gpus_per_node=4",
        )


def test_an_estimator_that_is_not_used_is_named(caplog):
    with caplog.at_level(logging.WARNING, logger="tpo"):
        trainer("algorithm.adv_estimator=grpo")
    assert "algorithm.adv_estimator=grpo is not used" in caplog.text


def test_the_asynchronous_trainer_is_based_on_verls():
    made = trainer("trainer.v1.trainer_mode=tpo_colocate_async")
    assert made.trainer_mode == "colocate_async"
