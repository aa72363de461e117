"""Two processes of verl's training worker with FSDP2 over gloo: the gradient of a step whose groups lie across
both, beside the objective's over whole groups in float64. Prints JSON: `python two_ranks.py FOLDER`
"""

import json
import os
import socket
import sys
from functools import partial

import cpu_platform
import torch
from real_update import PROMPTS, Exact, K, chosen_by_policy, fields, recorded, rows, size
from verl.utils import tensordict_utils as tu
from verl.utils.tensordict_utils import list_of_dict_to_tensordict
from verl.workers.config import (
    FSDPActorConfig,
    FSDPEngineConfig,
    FSDPOptimizerConfig,
    HFModelConfig,
    TrainingWorkerConfig,
)
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.losses import ppo_loss

from tpo.llm.objective_options import build_objective
from tpo.llm.verl.rollouts import Ragged, Rollouts, places


def worker(folder):
    made = TrainingWorker(
        TrainingWorkerConfig(
            model_type="language_model",
            model_config=HFModelConfig(
                path=folder,
                use_remove_padding=False,
                enable_gradient_checkpointing=False,
                override_config={"attn_implementation": "eager"},
            ),
            engine_config=FSDPEngineConfig(
                strategy="fsdp2",
                model_dtype="fp32",
                mixed_precision={"param_dtype": "fp32"},
                use_torch_compile=False,
                use_dynamic_bsz=True,
                max_token_len_per_gpu=160,
            ),
            optimizer_config=FSDPOptimizerConfig(lr=1e-2, total_training_steps=10, clip_grad=1e9),
        )
    )
    made.reset()
    made.set_loss_fn(
        partial(
            ppo_loss,
            config=FSDPActorConfig(
                strategy="fsdp2",
                rollout_n=K,
                use_dynamic_bsz=True,
                policy_loss={"loss_mode": "tpo"},
            ),
        )
    )
    return made


def with_padding(found):
    """Rows, and padding rows as verl makes them, up to a full batch."""
    stored = [fields(uid, x, y, chosen_by_policy(y), score) for uid, _, x, y, score in found]
    keys = [f"{uid}_{k}_0" for uid, k, *_ in found]
    one = torch.ones(1, dtype=torch.int64)
    for i in range(PROMPTS * K - len(found)):
        stored.append(fields("pad0", one.repeat(127), one, 0 * one, 0.0))
        keys.append(f"pad0_{i}_0")
    return stored, keys


def advantages(stored, keys, old, objective):
    """As the controller makes them."""
    lengths = torch.tensor([0] + [len(row["responses"]) for row in stored])
    starts = lengths.cumsum(0)
    made = Rollouts(
        objective,
        places([row["uid"] for row in stored], keys),
        torch.stack([row["rm_scores"].sum() for row in stored]),
        Ragged(torch.cat([row["response_mask"] for row in stored]), starts),
        Ragged(torch.cat(old), starts),
    )
    c = made.coefficients()
    return [-c.row(i) for i in range(len(stored))]


def rows_of_rank(rank, exact, found, objective):
    """Every second row with its advantages, so that neighbours in a group lie on different ranks."""
    stored, keys = with_padding(found)
    where = {f"uid{g}_{k}_0": (g, k) for g in range(PROMPTS) for k in range(K)}
    old = [
        exact.group.log_probs_old[where[key]][: len(row["responses"])].float()
        if key in where
        else torch.zeros(1)
        for key, row in zip(keys, stored, strict=True)
    ]
    by_row = advantages(stored, keys, old, objective)
    data = list_of_dict_to_tensordict(
        [
            {**stored[i], "old_log_probs": old[i], "advantages": by_row[i]}
            for i in range(rank, len(stored), 2)
        ]
    )
    tu.assign_non_tensor(
        data,
        global_batch_size=len(stored),
        mini_batch_size=len(stored),
        temperature=1.0,
        calculate_entropy=False,
    )
    return data


def main(rank, folder, port):
    os.environ.update(
        RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port, LOCAL_RANK="0"
    )
    torch.set_num_threads(1)
    cpu_platform.use()
    torch.distributed.init_process_group("gloo")
    objective = build_objective("tpo", {"score": "mean"}, 0.0, "")
    found = rows(torch.Generator().manual_seed(0), range(PROMPTS))
    exact = Exact(folder, found, objective)
    data = rows_of_rank(rank, exact, found, objective)
    made = worker(folder)
    with recorded(made.engine) as (steps, _):
        made.train_mini_batch(data)
    ((weights, gradients),) = steps
    wanted = exact.gradient(weights, list(range(PROMPTS)), 1)
    off = size({k: gradients[k].double() - w for k, w in wanted.items()})
    ranks = made.engine.get_data_parallel_size()
    if rank == 0:
        print(
            "RESULT",
            json.dumps({"error": off / size(wanted), "size": size(wanted), "ranks": ranks}),
        )
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        chosen_port = str(free.getsockname()[1])
    torch.multiprocessing.spawn(main, (sys.argv[1], chosen_port), nprocs=2)
