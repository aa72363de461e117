"""verl's own trainers with the objectives of this library: coefficients on the controller, as advantages.

verl splits rows over ranks and micro-batches, where a softmax over the group is impossible. The controller has
the whole batch, with uid and log-probs. There A = -dL/d log pi is computed from whole groups. The policy loss
is -Σ A·log pi, on any rank and in any micro-batch. Before the second update on a batch the policy has moved. So
the log-probs of that update's rows, whole groups, are computed again without gradient, and A from them.
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
from tpo.llm.verl.settings import check, configure, read

HOOKS = (
    "_compute_advantage",
    "_update_actor",
    "_get_required_batch_multiple",
    "_init_dataloader",
)
"""Methods of verl's trainer that are overridden."""

missing = [name for name in HOOKS if not callable(getattr(PPOTrainer, name, None))]
if missing:
    raise ImportError(
        f"verl's PPOTrainer has no {', '.join(missing)}: install verl 0.9 (0.9.1 is tested)"
    )


class ObjectiveTrainer(PPOTrainer):  # type: ignore[misc]
    """Base class that overrides methods of verl's trainers, so that they train an objective of this library."""

    def __init__(self, config: Any) -> None:
        """Check the config, set the options of verl that follow from it, and continue as verl does."""
        self.settings = read(config)
        self.objective = self.settings.build()
        self.updates = check(config, self.settings)
        configure(config, self.objective)
        self._warnings = GroupWarnings(self.settings.patience, self.objective)
        self._rollouts: Rollouts | None = None
        actor = config.actor_rollout_ref.actor
        further_losses = OmegaConf.select(config, "actor_rollout_ref.model.mtp.enable_train")
        own_gradient = actor.use_kl_loss or actor.entropy_coeff or further_losses
        self._skips_zero_gradient = self.settings.skip_zero_gradient and not own_gradient
        super().__init__(config)

    def _init_dataloader(self) -> None:
        """As verl's, but the learning-rate schedule has as many steps as the optimiser."""
        super()._init_dataloader()
        optimiser = self.config.actor_rollout_ref.actor.optim
        with open_dict(self.config):
            optimiser.total_training_steps *= self.updates.total

    def _get_required_batch_multiple(self, dp_size: int) -> int:
        """As verl's, but with several updates the batch is padded to full size, so that each update can be."""
        multiple: int = super()._get_required_batch_multiple(dp_size)
        if self.updates.total == 1:
            return multiple
        rows: int = self.config.data.train_batch_size * self.config.actor_rollout_ref.rollout.n
        return math.lcm(rows, multiple)

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """A = -dL/d log pi of every token at the rollout snapshot, instead of verl's estimators."""
        fields = ["uid", "response_mask", "rm_scores"]
        if needs_log_probs(self.objective, self.updates.total):
            fields.append("old_log_probs")
        if self.objective.uses_values:
            fields.append("values")
        data = tq.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=fields
        )
        self._rollouts = Rollouts(
            self.objective,
            places(list(data["uid"]), batch.keys),
            ragged(data["rm_scores"]).sums(),
            ragged(data["response_mask"]),
            ragged(data["old_log_probs"]) if "old_log_probs" in fields else None,
            ragged(data["values"]) if "values" in fields else None,
        )
        self._log_scores(self._rollouts, metrics)
        self._zero_unscored(batch, data)
        c = self._rollouts.coefficients()
        self._has_gradient = bool(c.values.any())
        offsets = data["response_mask"].offsets()
        advantages = torch.nested.nested_tensor_from_jagged(c.values.neg_(), offsets)
        if "values" not in fields:
            return put(batch, advantages)
        targets = self._rollouts.returns().values
        return put(batch, advantages, torch.nested.nested_tensor_from_jagged(targets, offsets))

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """One optimiser step on the batch, or several on whole groups; zero-gradient steps are skipped."""
        if self._skips_zero_gradient and not self._has_gradient:
            metrics["tpo/zero_gradient_steps"] = self.updates.total
            return batch
        metrics["tpo/zero_gradient_steps"] = 0
        if self.updates.total == 1:
            return super()._update_actor(batch, metrics)
        found: dict[str, list[float]] = {}
        mini_batches = self._mini_batches(batch)
        updated = False
        for update in range(self.updates.total):
            rows = mini_batches[update % len(mini_batches)]
            part, has_gradient = self._with_advantages(batch, rows, updated)
            if self._skips_zero_gradient and not has_gradient:
                metrics["tpo/zero_gradient_steps"] += 1
                continue
            updated = True
            own: dict[str, Any] = {}
            super()._update_actor(part, own)
            for name, value in own.items():
                found.setdefault(name, []).append(value)
        metrics.update({name: sum(values) / len(values) for name, values in found.items()})
        return batch

    # Helpers of the overridden methods

    def _mini_batches(self, batch: KVBatchMeta) -> list[list[int]]:
        """The rows of each update of an epoch: whole groups and padding rows, balanced over the ranks."""
        assert self._rollouts is not None
        slots, K = self._rollouts.places.slots.tolist(), self._rollouts.places.K
        size = self.config.actor_rollout_ref.actor.ppo_mini_batch_size
        found: list[list[int]] = [[] for _ in range(self.updates.mini_batches)]
        padding = []
        for row, slot in enumerate(slots):
            if slot < 0:
                padding.append(row)
            else:
                found[slot // K // size].append(row)
        full = len(slots) // len(found)
        for rows in found:
            rows += [padding.pop() for _ in range(full - len(rows))]
        return [self._balanced(batch, rows) for rows in found]

    def _balanced(self, batch: KVBatchMeta, rows: list[int]) -> list[int]:
        """The rows in an order that gives every data-parallel rank about the same work."""
        ranks = max(self.actor_rollout_wg._dispatch_info["actor"]) + 1
        lengths = torch.tensor([batch.tags[row]["seq_len"] for row in rows])
        shares = get_seqlen_balanced_partitions(
            calculate_workload(lengths), k_partitions=ranks, equal_size=True
        )
        return [rows[i] for share in shares for i in share]

    def _with_advantages(
        self, batch: KVBatchMeta, rows: list[int], updated: bool
    ) -> tuple[KVBatchMeta, bool]:
        """The batch of one update with advantages for the current policy, and whether one of them is not 0.

        `updated` says that the policy is no longer the rollout snapshot.
        """
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
            policy = self._current_log_probs(part, rows)
        c = self._rollouts.coefficients(policy)
        by_row = [-self.updates.mini_batches * c.row(row) for row in rows]
        advantages = torch.nested.as_nested_tensor(by_row, layout=torch.jagged)
        return put(part, advantages), bool(advantages.values().any())

    def _current_log_probs(self, part: KVBatchMeta, rows: list[int]) -> Ragged:
        """Log-probs of the whole batch: of `rows` under the current policy, of others under the snapshot."""
        data = tq.kv_batch_get(
            keys=part.keys,
            partition_id=part.partition_id,
            select_fields=["log_probs", "response_mask"],
        )
        new = ragged(response_from_nested(data["log_probs"], data["response_mask"]))
        assert self._rollouts is not None
        assert self._rollouts.old is not None
        found = Ragged(self._rollouts.old.values.clone(), self._rollouts.old.starts)
        for i, row in enumerate(rows):
            found.row(row).copy_(new.row(i))
        return found

    def _log_scores(self, rollouts: Rollouts, metrics: dict[str, Any]) -> None:
        """Add the shares of groups to the metrics, and warn where they call for it."""
        found = score_metrics(rollouts.groups, self.settings.success)
        metrics.update({f"tpo/{name}": value for name, value in found.items()})
        self._warnings.check_scores(found)

    def _zero_unscored(self, batch: KVBatchMeta, data: TensorDict) -> None:
        """Store 0 for scores of NaN, which verl's own means would pass on; the groups are made without them."""
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
    """The rows of a jagged tensor [N, j] of verl."""
    return Ragged(nested.values(), nested.offsets())


def put(
    batch: KVBatchMeta, advantages: torch.Tensor, returns: torch.Tensor | None = None
) -> KVBatchMeta:
    """Store the advantages, and what a critic is fitted to: verl's metrics need it even without a critic."""
    found = {"advantages": advantages, "returns": advantages if returns is None else returns}
    return tq.kv_batch_put(
        keys=batch.keys,
        partition_id=batch.partition_id,
        fields=TensorDict(found, batch_size=len(batch)),
    )


@register_trainer("tpo")
class TargetPolicyTrainerSync(ObjectiveTrainer, PPOTrainerSync):  # type: ignore[misc]
    """Rollouts and updates alternate."""


@register_trainer("tpo_colocate_async")
class TargetPolicyTrainerColocateAsync(ObjectiveTrainer, PPOTrainerColocateAsync):  # type: ignore[misc]
    """Rollouts continue during the updates on a batch; p_old is the trainer's policy before those updates."""
