"""verl's own trainers with the objectives of this library: coefficients on the controller, as advantages.

verl splits rows over ranks and micro-batches, where a softmax over the group is impossible. On the controller
the whole batch is at hand, with uid and log-probs: A = -dL/d log pi is made there from whole groups, and the
policy loss is -Σ A·log pi wherever a row lands. Before the second update on a batch the policy has moved: the
rows of that update, whole groups, are scored anew without gradient, and A with them.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import transfer_queue as tq
from omegaconf import OmegaConf, open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1 import (
    PPOTrainer,
    PPOTrainerColocateAsync,
    PPOTrainerSync,
    register_trainer,
)
from verl.utils.seqlen_balancing import calculate_workload, get_seqlen_balanced_partitions
from verl.workers.utils.padding import response_from_nested

from tpo.llm.group_metrics import GroupWarnings, score_metrics
from tpo.llm.verl.rollouts import Ragged, Rollouts, needs_log_probs, places
from tpo.llm.verl.settings import adopt, check, read

HOOKS = (
    "_compute_advantage",
    "_update_actor",
    "_get_required_batch_multiple",
    "_init_dataloader",
)
"""Methods of verl's trainer that are wrapped."""

missing = [name for name in HOOKS if not callable(getattr(PPOTrainer, name, None))]
if missing:
    raise ImportError(
        f"verl's PPOTrainer has no {', '.join(missing)}: install verl 0.9 (0.9.1 is tested)"
    )


class Objectives(PPOTrainer):  # type: ignore[misc]
    """What is put in front of one of verl's trainers."""

    def __init__(self, config: Any) -> None:
        """Check everything, tell verl what follows from it, and go on as verl does."""
        self.settings = read(config)
        self.objective = self.settings.build()
        self.updates = check(config, self.settings)
        adopt(config)
        self._warnings = GroupWarnings(self.settings.patience, self.objective)
        self._rollouts: Rollouts | None = None
        actor = config.actor_rollout_ref.actor
        further_losses = OmegaConf.select(config, "actor_rollout_ref.model.mtp.enable_train")
        own_gradient = actor.use_kl_loss or actor.entropy_coeff or further_losses
        self._skips = self.settings.skip_zero_gradient and not own_gradient
        super().__init__(config)

    def _init_dataloader(self) -> None:
        """verl's; a schedule of the learning rate counts optimiser steps."""
        super()._init_dataloader()
        optimiser = self.config.actor_rollout_ref.actor.optim
        with open_dict(self.config):
            optimiser.total_training_steps *= self.updates.total

    def _get_required_batch_multiple(self, dp_size: int) -> int:
        """verl's; with several updates, padded to full size, so that each update can be filled up."""
        multiple: int = super()._get_required_batch_multiple(dp_size)
        if self.updates.total == 1:
            return multiple
        rows: int = self.config.data.train_batch_size * self.config.actor_rollout_ref.rollout.n
        return math.lcm(rows, multiple)

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """A = -dL/d log pi of every token at the rollout snapshot, in place of verl's estimators."""
        fields = ["uid", "response_mask", "rm_scores"]
        if needs_log_probs(self.objective, self.updates.total):
            fields.append("old_log_probs")
        data = tq.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=fields
        )
        self._rollouts = Rollouts(
            self.objective,
            places(list(data["uid"]), batch.keys),
            ragged(data["rm_scores"]).sums(),
            ragged(data["response_mask"]),
            ragged(data["old_log_probs"]) if "old_log_probs" in fields else None,
        )
        self._note(self._rollouts, metrics)
        self._hide_unscored(batch, data)
        c = self._rollouts.coefficients()
        self._has_signal = bool(c.values.any())
        return self._put(batch, c, data["response_mask"])

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """One optimiser step on the whole batch, or several on whole groups each; none without a gradient."""
        if self._skips and not self._has_signal:
            metrics["tpo/zero_gradient_steps"] = self.updates.total
            return batch
        metrics["tpo/zero_gradient_steps"] = 0
        if self.updates.total == 1:
            return super()._update_actor(batch, metrics)
        found: dict[str, list[float]] = {}
        parts = self._parts(batch)
        updated = False
        for update in range(self.updates.total):
            part, moves = self._refreshed(batch, parts[update % len(parts)], updated)
            if self._skips and not moves:
                metrics["tpo/zero_gradient_steps"] += 1
                continue
            updated = True
            own: dict[str, Any] = {}
            super()._update_actor(part, own)
            for name, value in own.items():
                found.setdefault(name, []).append(value)
        metrics.update({name: sum(values) / len(values) for name, values in found.items()})
        return batch

    # What the hooks are made of

    def _parts(self, batch: KVBatchMeta) -> list[list[int]]:
        """Rows of each update: whole groups, filled up with padding rows, balanced over the ranks."""
        assert self._rollouts is not None
        slots, K = self._rollouts.places.slots.tolist(), self._rollouts.places.K
        size = self.config.actor_rollout_ref.actor.ppo_mini_batch_size
        parts: list[list[int]] = [[] for _ in range(self.updates.parts)]
        padding = []
        for row, slot in enumerate(slots):
            if slot < 0:
                padding.append(row)
            else:
                parts[slot // K // size].append(row)
        rows = len(slots) // len(parts)
        for part in parts:
            part += [padding.pop() for _ in range(rows - len(part))]
        return [self._balanced(batch, part) for part in parts]

    def _balanced(self, batch: KVBatchMeta, rows: list[int]) -> list[int]:
        ranks = max(self.actor_rollout_wg._dispatch_info["actor"]) + 1
        lengths = torch.tensor([batch.tags[row]["seq_len"] for row in rows])
        shares = get_seqlen_balanced_partitions(
            calculate_workload(lengths), k_partitions=ranks, equal_size=True
        )
        return [rows[i] for share in shares for i in share]

    def _refreshed(
        self, batch: KVBatchMeta, rows: list[int], updated: bool
    ) -> tuple[KVBatchMeta, bool]:
        """The batch of one update, with the advantages of the policy as it is now, and whether one is not 0."""
        part = KVBatchMeta(
            partition_id=batch.partition_id,
            keys=[batch.keys[row] for row in rows],
            tags=[batch.tags[row] for row in rows],
            fields=batch.fields,
            extra_info=dict(batch.extra_info),
        )
        assert self._rollouts is not None
        policy = None
        if updated:
            part.extra_info.update(
                calculate_entropy=False,
                compute_loss=False,
                temperature=self.config.actor_rollout_ref.rollout.temperature,
            )
            self.actor_rollout_wg.compute_log_prob(part)
            policy = self._placed(part, rows)
        c = self._rollouts.coefficients(policy)
        own = [-self.updates.parts * c.row(row) for row in rows]
        advantages = torch.nested.as_nested_tensor(own, layout=torch.jagged)
        return put(part, advantages), bool(advantages.values().any())

    def _placed(self, part: KVBatchMeta, rows: list[int]) -> Ragged:
        """Log-probs of all rows: of these under the policy as it is now, of others under the snapshot."""
        data = tq.kv_batch_get(
            keys=part.keys,
            partition_id=part.partition_id,
            select_fields=["log_probs", "response_mask"],
        )
        new = ragged(response_from_nested(data["log_probs"], data["response_mask"]))
        assert self._rollouts is not None
        assert self._rollouts.old is not None
        placed = Ragged(self._rollouts.old.values.clone(), self._rollouts.old.starts)
        for i, row in enumerate(rows):
            placed.row(row).copy_(new.row(i))
        return placed

    def _put(self, batch: KVBatchMeta, c: Ragged, like: Any) -> KVBatchMeta:
        return put(batch, torch.nested.nested_tensor_from_jagged(c.values.neg_(), like.offsets()))

    def _note(self, rollouts: Rollouts, metrics: dict[str, Any]) -> None:
        found = score_metrics(rollouts.group, self.settings.success)
        metrics.update({f"tpo/{name}": value for name, value in found.items()})
        self._warnings.check_scores(found)

    def _hide_unscored(self, batch: KVBatchMeta, data: TensorDict) -> None:
        """A score of NaN has left its candidate out of the group; verl's own means of scores read 0 there."""
        scores = data["rm_scores"]
        if not scores.values().isfinite().all():
            clean = scores.values().nan_to_num(0.0, 0.0, 0.0)
            fields = {"rm_scores": torch.nested.nested_tensor_from_jagged(clean, scores.offsets())}
            tq.kv_batch_put(
                keys=batch.keys,
                partition_id=batch.partition_id,
                fields=TensorDict(fields, batch_size=len(batch)),
            )


def ragged(nested: Any) -> Ragged:
    """verl's jagged tensor [N, j] as rows end to end."""
    return Ragged(nested.values(), nested.offsets())


def put(batch: KVBatchMeta, advantages: torch.Tensor) -> KVBatchMeta:
    """Store advantages, and as returns, which verl's metrics ask for."""
    return tq.kv_batch_put(
        keys=batch.keys,
        partition_id=batch.partition_id,
        fields=TensorDict({"advantages": advantages, "returns": advantages}, batch_size=len(batch)),
    )


@register_trainer("tpo")
class TargetPolicyTrainerSync(Objectives, PPOTrainerSync):  # type: ignore[misc]
    """Rollouts and updates take turns."""


@register_trainer("tpo_colocate_async")
class TargetPolicyTrainerColocateAsync(Objectives, PPOTrainerColocateAsync):  # type: ignore[misc]
    """Rollouts go on while a batch is updated on; p_old is the trainer's, at the start of its update."""
