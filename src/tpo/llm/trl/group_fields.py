"""What groups have besides scores and log-probs: the score of a greedy completion, and the task of a prompt."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from trl import GRPOTrainer

from tpo.groups import Groups
from tpo.llm.trl.task_weights import TaskWeights

Tensor = torch.Tensor


class GroupFields:
    """The further fields of a trainer's rollout batches, as far as its objective uses them."""

    def __init__(self, trainer: Any) -> None:
        """For the rollout batches of this trainer."""
        self.trainer = trainer
        self.greedy, self.tasks = GreedyBaseline(trainer), TaskWeights(trainer)
        trainer.add_callback(self.tasks)

    @property
    def temperature(self) -> float | None:
        """What the fast sampler is to sample at; None for greedy completions."""
        return self.greedy.temperature

    def read(self, inputs: list[dict[str, Any]]) -> None:
        """Before a rollout batch is sampled for this rank's rows."""
        trainer = self.trainer
        training = trainer.model.training
        K = trainer.num_generations if training else trainer.num_generations_eval
        self.tasks.read(inputs, K)
        self.greedy.sample(inputs, K)

    def of_groups(self, weights: torch.Tensor, n_groups: int) -> dict[str, torch.Tensor]:
        """Fields of `Groups`, [G] each; weights: [R] of the rewards."""
        found = {}
        if self.greedy.rewards is not None:
            rewards = self.greedy.rewards.float().nan_to_num(0.0)
            found["baseline"] = (rewards * weights).sum(-1)
        if self.tasks.ids is not None:
            found["tasks"] = self.tasks.ids
        if self.trainer.objective.uses_progress:
            state = self.trainer.state
            share = state.global_step / max(state.max_steps, 1)
            found["progress"] = torch.full((n_groups,), share, device=weights.device)
        return found

    def comparable(self, valid: torch.Tensor) -> torch.Tensor:
        """[G, K] valid candidates, but for those of a group whose greedy completion has no score."""
        if self.greedy.rewards is None:
            return valid
        return valid & ~self.greedy.rewards.isnan().all(-1)[:, None]

    def observe(self, groups: Groups) -> None:
        """After a rollout batch was scored."""
        self.tasks.observe(groups)


class GreedyBaseline:
    """Samples and scores a greedy completion of each prompt, where the objective subtracts its score."""

    def __init__(self, trainer: Any) -> None:
        """Raise if the objective needs greedy completions, and rollouts are not the trainer's own."""
        self.trainer = trainer
        self.rewards: Tensor | None = None
        """[G, R] of the current rollout batch, NaN where one is missing; None if the objective needs none"""
        self._sampling = False
        self.needed = "baseline" in trainer.objective.needs
        others = ("rollout_func", "tools", "environment_factories")
        given = [name for name in others if getattr(trainer, name, None)]
        if self.needed and given:
            raise ValueError(_refusal(trainer.args.objective, given[0]))

    @property
    def temperature(self) -> float | None:
        """Of the fast sampler; None while greedy completions are sampled."""
        temperature: float = self.trainer.temperature
        return None if self._sampling else temperature

    @torch.no_grad()
    def sample(self, inputs: list[dict[str, Any]], K: int) -> None:
        """Score a greedy completion of each group, if the objective needs it.

        inputs: this rank's rows, K of each group, rank after rank. A group that lies on several ranks is
        sampled on each of them. All ranks score equally many rows, since TRL gathers their rewards.
        """
        if not self.needed:
            return
        trainer, n = self.trainer, len(inputs)
        rank, ranks = trainer.accelerator.process_index, trainer.accelerator.num_processes
        groups_of = [list(range(r * n // K, (r * n + n - 1) // K + 1)) for r in range(ranks)]
        most = max(map(len, groups_of))
        padded = [groups + groups[:1] * (most - len(groups)) for groups in groups_of]
        found = self._scored([inputs[max(g * K - rank * n, 0)] for g in padded[rank]])
        self.rewards = found.new_full((ranks * n // K, found.shape[1]), torch.nan)
        groups = torch.tensor(padded, device=found.device).flatten()
        self.rewards[groups] = found

    def _scored(self, rows: list[dict[str, Any]]) -> Tensor:
        """[N, R] the rewards of greedy completions of these rows' prompts, of all ranks."""
        for name in ("image", "images"):
            if rows[0].get(name):
                raise ValueError(_refusal(self.trainer.args.objective, name))
        prompts = [row["prompt"] for row in rows]
        with self._unlogged(), self._greedy():
            _, ids, _, completions, *_ = self.trainer._generate(prompts)
            rewards: Tensor = GRPOTrainer._calculate_rewards(
                self.trainer, [dict(row) for row in rows], prompts, completions, ids
            )
        return torch.where(rewards.isfinite(), rewards, torch.nan)

    @contextmanager
    def _greedy(self) -> Iterator[None]:
        """Sampling takes the likeliest token, in the fast sampler and in TRL's own."""
        config = self.trainer.generation_config
        greedy = copy.deepcopy(config)
        greedy.do_sample, greedy.temperature, greedy.top_p, greedy.top_k = False, None, None, None
        self.trainer.generation_config, self._sampling = greedy, True
        try:
            yield
        finally:
            self.trainer.generation_config, self._sampling = config, False

    @contextmanager
    def _unlogged(self) -> Iterator[None]:
        """TRL's means and tables are of the completions that are trained on."""
        trainer = self.trainer
        metrics = trainer._metrics["train" if trainer.model.training else "eval"]
        pending = ("_pending_extra_logs", "_pending_metrics")  # not in every version of TRL
        logs = (metrics, *(getattr(trainer, name, {}) for name in pending))
        before = [{name: list(values) for name, values in log.items()} for log in logs]
        try:
            yield
        finally:
            for log, kept in zip(logs, before, strict=True):
                log.clear()
                log.update(kept)


def _refusal(objective: str, option: str) -> str:
    return (
        f"objective {objective!r} takes a greedy completion of each prompt, which {option} does not sample: "
        f"leave {option} out, or choose 'rloo', whose baseline is the rest of the group"
    )
