"""verl's own config, composed by hydra as its command line does."""

from hydra import compose, initialize_config_module

SMALL = (
    "data.train_batch_size=8",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.n=4",
    "actor_rollout_ref.actor.ppo_mini_batch_size=8",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
    "trainer.n_gpus_per_node=2",
    "trainer.v1.trainer_mode=tpo",
)


def composed(*overrides, module="verl.trainer.config", name="ppo_trainer", base=SMALL):
    with initialize_config_module(config_module=module, version_base=None):
        return compose(config_name=name, overrides=[*base, *overrides])
