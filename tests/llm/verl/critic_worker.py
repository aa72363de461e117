"""verl's critic worker in one process with its trainer."""

from functools import partial
from types import SimpleNamespace

from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import TrainingWorkerConfig
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.losses import value_loss


class Critic:
    """verl's critic worker in this process, as its trainer makes and calls it."""

    def __init__(self, config):
        critic = omega_conf_to_dataclass(config.critic)
        critic.engine.infer_max_token_len_per_gpu = critic.ppo_infer_max_token_len_per_gpu
        critic.engine.max_token_len_per_gpu = critic.ppo_infer_max_token_len_per_gpu
        self.worker = TrainingWorker(
            TrainingWorkerConfig(
                model_type="value_model",
                model_config=critic.model,
                engine_config=critic.engine,
                optimizer_config=critic.optim,
                checkpoint_config=critic.checkpoint,
            )
        )
        self.worker._dispatch_info = {"train": [0]}
        self.worker.reset()
        self.worker.set_loss_fn(partial(value_loss, config=critic))

    def infer_batch(self, batch):
        self.worker.infer_batch(batch)
        return SimpleNamespace(futures=[])

    def train_mini_batch(self, batch):
        found = self.worker.train_mini_batch(batch)
        return SimpleNamespace(get=lambda: found)
