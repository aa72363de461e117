"""verl's own trainer, queue, worker and FSDP engine on the CPU, one process: every optimiser step's gradient
beside the objective's over whole groups in float64. A line of JSON for each run, which is the groups whose
scores differ, and a list of overrides: `python real_update.py FOLDER '[[0, 1, 2, 3], ["key=value", ...]]' ...`
"""

import contextlib
import json
import os
import socket
import sys

import cpu_platform
import ray
import torch
import transfer_queue as tq
from configs import composed
from critic_worker import Critic
from exact_update import PROMPTS, VOCABULARY, Exact, K, chosen_by_policy
from omegaconf import OmegaConf
from verl.trainer.ppo.v1 import PPOTrainer, get_trainer_cls
from verl.utils.tensordict_utils import list_of_dict_to_tensordict
from verl.workers.engine_workers import ActorRolloutRefWorker


def options(folder):
    return (
        f"actor_rollout_ref.model.path={folder}",
        f"data.train_batch_size={PROMPTS}",
        f"actor_rollout_ref.rollout.n={K}",
        "+actor_rollout_ref.model.override_config.attn_implementation=eager",
        "actor_rollout_ref.model.use_remove_padding=False",
        "actor_rollout_ref.model.enable_gradient_checkpointing=False",
        "actor_rollout_ref.actor.strategy=fsdp2",
        "actor_rollout_ref.actor.fsdp_config.model_dtype=fp32",
        "actor_rollout_ref.actor.fsdp_config.dtype=float32",
        "+actor_rollout_ref.actor.fsdp_config.mixed_precision={param_dtype: fp32}",
        "actor_rollout_ref.actor.fsdp_config.use_torch_compile=False",
        "actor_rollout_ref.actor.use_dynamic_bsz=True",
        "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=True",
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=160",
        "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu=160",
        "actor_rollout_ref.actor.optim.lr=1e-2",
        "actor_rollout_ref.actor.optim.total_training_steps=10",
        "actor_rollout_ref.actor.grad_clip=1e9",
        "actor_rollout_ref.actor.ppo_mini_batch_size=4",
        "trainer.n_gpus_per_node=1",
        f"critic.model.path={folder}",
        "+critic.model.override_config.attn_implementation=eager",
        "critic.model.use_remove_padding=False",
        "critic.model.enable_gradient_checkpointing=False",
        "critic.strategy=fsdp2",
        "critic.fsdp.model_dtype=fp32",
        "critic.fsdp.dtype=float32",
        "+critic.fsdp.mixed_precision={param_dtype: fp32}",
        "critic.fsdp.use_torch_compile=False",
        "critic.ppo_max_token_len_per_gpu=160",
        "critic.optim.lr=1e-2",
        "critic.optim.total_training_steps=10",
    )


def rows(draw, informative):
    """One session of one group is lost, so that verl pads; one has no score. Others score 0."""
    found = []
    for g in range(PROMPTS):
        prompt = torch.randint(2, VOCABULARY, (3 + g,), generator=draw)
        for k in range(K - (g == 0)):
            response = torch.randint(2, VOCABULARY, (2 + (5 * g + 3 * k) % 7,), generator=draw)
            score = float("nan") if (g, k) == (1, 2) else float((g + k) % 2 and g in informative)
            found.append((f"uid{g}", k, prompt, response, score))
    return found


def fields(uid, prompt, response, mask, score):
    """One row as verl's agent loop stores it."""
    ids = torch.cat([prompt, response])
    rewards = torch.zeros(len(response))
    rewards[-1] = score
    return {
        "uid": uid,
        "prompts": prompt,
        "responses": response,
        "response_mask": mask,
        "loss_mask": mask,
        "input_ids": ids,
        "position_ids": torch.arange(len(ids)),
        "attention_mask": torch.ones_like(ids),
        "rm_scores": rewards,
        "rollout_log_probs": torch.zeros(len(response)),
        "num_turns": 2,
    }


def put(found):
    """As verl's agent loop does."""
    stored = [fields(uid, x, y, chosen_by_policy(y), score) for uid, _, x, y, score in found]
    return tq.kv_batch_put(
        keys=[f"{uid}_{k}_0" for uid, k, *_ in found],
        partition_id="train",
        fields=list_of_dict_to_tensordict(stored),
        tags=[
            {"status": "success", "prompt_len": len(x), "seq_len": len(x) + len(y)}
            for _, _, x, y, _ in found
        ],
    )


def plain(tensor):
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach().clone()


def started():
    """One process as verl's controller and its one worker."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(
        RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), LOCAL_RANK="0"
    )
    torch.set_num_threads(1)
    cpu_platform.use()
    torch.distributed.init_process_group("gloo")
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    tq.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 1}}}))


def trainer_with_worker(config):
    trainer = get_trainer_cls("tpo")(config=config)
    worker = ActorRolloutRefWorker(config.actor_rollout_ref, role="actor")
    worker.init_model()
    worker._dispatch_info = {"actor": [0]}
    trainer.actor_rollout_wg, trainer.global_steps, trainer.distillation_config = worker, 1, None
    trainer.tokenizer = type("Tokenizer", (), {"eos_token_id": 1})()
    if trainer.use_critic:
        trainer.critic_wg = Critic(config)
    return trainer, worker.actor.engine


def tensors_of(module):
    """Weights and gradients by name."""
    named = dict(module.named_parameters())
    weights = {k: plain(x) for k, x in named.items()}
    return weights, {k: plain(x.grad) for k, x in named.items() if x.grad is not None}


@contextlib.contextmanager
def recorded(engine):
    """Weights and gradients of each optimiser step, and the groups in each update."""
    steps, groups = [], []
    step, update = engine.optimizer_step, PPOTrainer._update_actor

    def recorded_step(*args):
        steps.append(tensors_of(engine.module))
        return step(*args)

    def recorded_update(self, batch, metrics):
        groups.append(sorted({int(key[3]) for key in batch.keys if not key.startswith("pad")}))
        return update(self, batch, metrics)

    engine.optimizer_step, PPOTrainer._update_actor = recorded_step, recorded_update
    yield steps, groups
    engine.optimizer_step, PPOTrainer._update_actor = step, update


def compared(exact, steps, groups, mini_batches):
    """The size of the exact gradient of each step, and the error of the recorded one relative to it."""
    errors, sizes = [], []
    for (weights, gradients), own in zip(steps, groups, strict=True):
        wanted = exact.gradient(weights, own, mini_batches)
        sizes.append(size(wanted))
        error = size({k: gradients[k].double() - w for k, w in wanted.items()})
        errors.append(error / max(sizes[-1], 1e-9))
    return errors, sizes


def updated(folder, informative, overrides):
    """What one run does: its errors, and what it moved, skipped and logged."""
    config = composed(*options(folder), *overrides)
    OmegaConf.resolve(config)
    trainer, engine = trainer_with_worker(config)
    found = rows(torch.Generator().manual_seed(0), informative)
    before, _ = tensors_of(engine.module)
    metrics = {}
    batch = trainer._balance_batch(put(found), metrics=metrics)
    padding = sum(key.startswith("pad") for key in batch.keys)
    with recorded(engine) as (steps, groups):
        batch = trainer._compute_old_log_prob(batch, metrics)
        values = evaluated_by_critic(trainer, batch, metrics) if trainer.use_critic else None
        exact = Exact(folder, found, trainer.objective, values)
        batch = trainer._compute_advantage(batch, metrics)
        value_errors = fitted_critic(trainer, batch, metrics) if trainer.use_critic else []
        scores = stored(batch, "rm_scores")
        trainer._update_actor(batch, metrics)
    tq.kv_clear(keys=batch.keys, partition_id="train")
    after, _ = tensors_of(engine.module)
    errors, sizes = compared(exact, steps, groups, trainer.updates.mini_batches)
    return {
        "errors": errors,
        "sizes": sizes,
        "groups": groups,
        "padding": padding,
        "moved": size({k: w - before[k] for k, w in after.items()}),
        "zero_gradient_steps": metrics["tpo/zero_gradient_steps"],
        "finite": all(bool(x.isfinite().all()) for x in scores.values()),
        "metrics": sorted(metrics),
        "value_errors": value_errors,
    }


def stored(batch, name):
    """A field of each row, by the row's key."""
    data = tq.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=[name])
    return dict(zip(batch.keys, data[name].unbind(), strict=True))


def evaluated_by_critic(trainer, batch, metrics):
    """The critic's values of each row."""
    trainer._compute_values(batch, metrics)
    return stored(batch, "values")


def fitted_critic(trainer, batch, metrics):
    """The critic's mean squared distance from the objective's returns, before and after its updates."""
    returns = stored(batch, "returns")
    errors = []
    for _ in range(2):
        values = stored(batch, "values")
        real = [key for key in batch.keys if not key.startswith("pad")]
        errors.append(sum(float((values[key] - returns[key])[0] ** 2) for key in real) / len(real))
        trainer._update_critic(batch, metrics)
        trainer._compute_values(batch, metrics)
    return errors


def size(tensors):
    return sum(float(x.square().sum()) for x in tensors.values()) ** 0.5


if __name__ == "__main__":
    started()
    for run in sys.argv[2:]:
        print("RESULT", json.dumps(updated(sys.argv[1], *json.loads(run))))
    tq.close()
    ray.shutdown()
