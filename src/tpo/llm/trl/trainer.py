"""TargetPolicyTrainer: TRL's GRPO trainer with the loss of any objective that needs no critic.

Eight hooks, each around TRL's own method:
- a step uses only attention kernels whose gradient is right;
- completions come from a faster sampler, and their log-probs from packed groups, where these support the model;
- raw rewards are kept;
- a rollout batch becomes a `RolloutBatch`, whose coefficients are refreshed after each update;
- a step is split into micro-batches that fit the memory;
- the loss is Σ sg(c)·log_prob.

TRL shuffles candidates over micro-batches and ranks. The coefficients come from whole groups, so the gradient
is the objective's wherever the rows are.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from trl import GRPOTrainer

from tpo.llm.objective_structure import fits_micro_batch
from tpo.llm.packed import attention
from tpo.llm.rewards.guarded import guard_all
from tpo.llm.trl.compat import check_hooks, make_sampler, realign_steps, regrouped, token_mask
from tpo.llm.trl.config import TargetPolicyConfig
from tpo.llm.trl.counters import SkipAndFailureCounts
from tpo.llm.trl.distributed import Collectives
from tpo.llm.trl.dithering import dither
from tpo.llm.trl.group_fields import GroupFields
from tpo.llm.trl.log_probs import LogProbs
from tpo.llm.trl.metrics import MetricLog, step_metrics
from tpo.llm.trl.micro_batch import MicroBatch
from tpo.llm.trl.rollout_batch import RolloutBatch, groups_of
from tpo.llm.trl.skip_steps import SkipSteps

Tensor = torch.Tensor


class TargetPolicyTrainer(GRPOTrainer):  # type: ignore[misc]
    """Train a language model with any objective of `tpo.list_objectives()` that needs no critic.

    Takes what TRL's `GRPOTrainer` takes, with a `TargetPolicyConfig`. If the per-device batch holds whole
    groups (`per_device_train_batch_size` a multiple of `num_generations`) or the objective looks at one
    candidate at a time, coefficients come from the training step's own forward pass; otherwise from an
    additional forward pass without gradient.
    """

    _buffered_inputs: list[dict[str, Any]]
    _tag_names = ("trl", "tpo")
    _name = "TPO"
    _paper = {  # noqa: RUF012 - TRL's own shape
        "title": "Target Policy Optimization",
        "id": "2604.06159",
        "citation": "@article{tpo2026, title={Target Policy Optimization}, journal={arXiv:2604.06159}}",
    }

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        args: TargetPolicyConfig | None = None,
        *more: Any,
        **options: Any,
    ) -> None:
        """As TRL's. A failure of a reward function is counted, and its rows are left out.

        If no function scores any completion of the first rollout batches, the run ends.
        """
        check_hooks(GRPOTrainer)
        args = TargetPolicyConfig("tpo-output") if args is None else args
        if not isinstance(args, TargetPolicyConfig):
            raise TypeError(
                f"args is a {type(args).__name__}, expected a tpo.llm.TargetPolicyConfig"
            )
        self.objective = args.build()
        self._rollouts: RolloutBatch | None = None
        self.metric_log = MetricLog(self, args)
        self._cudnn_allowed = attention.cudnn_allowed()
        rewards = guard_all(reward_funcs, args.reward_timeout)
        super().__init__(model, rewards, args, *more, **options)
        if args.drop_truncated_completions:
            self.mask_truncated_completions = True  # a candidate without tokens leaves its group
        if args.bf16 and args.weight_dithering:
            dither(self.model, args.seed)
        self.sampler = None if self.use_vllm else make_sampler(self)
        self.log_probs = LogProbs(self)
        self.collectives = Collectives(self.accelerator)
        self.group_fields = GroupFields(self)
        self.micro_batch = None if args.micro_batch is None else MicroBatch(self, args.micro_batch)
        self.skip_steps = SkipSteps(self)
        self.add_callback(self.skip_steps)
        self.counts = SkipAndFailureCounts(self.skip_steps, self.reward_funcs)
        self.add_callback(self.counts)

    # The eight hooks

    def training_step(self, *args: Any, **options: Any) -> Tensor:
        """Without cuDNN's attention except for sampling: with a mask, its gradient is NaN at some lengths."""
        with attention.cudnn(False) as self._cudnn_allowed:
            loss: Tensor = super().training_step(*args, **options)
        return loss

    def _generate_single_turn(
        self, prompt_ids: Any, images: Any, *more: Any, **options: Any
    ) -> Any:
        """A completion for each row; by the fast sampler if it supports the model."""
        with attention.cudnn(self._cudnn_allowed):
            if self.sampler is None or images is not None:
                return super()._generate_single_turn(prompt_ids, images, *more, **options)
            start, before = time.perf_counter(), self.sampler.sampled
            completions = self.sampler(prompt_ids, self.group_fields.temperature)
        seconds, sampled = time.perf_counter() - start, self.sampler.sampled - before
        self.metric_log.add(rollout_time=seconds, rollout_tokens_per_second=sampled / seconds)
        return completions, None

    def _calculate_rewards(self, inputs: Any, *more: Any) -> Tensor:
        """Keep the raw rewards [N, R] of all ranks; NaN where a reward is missing, NaN or infinite."""
        start = time.perf_counter()
        rewards: Tensor = super()._calculate_rewards(inputs, *more)
        self._rewards = rewards = torch.where(rewards.isfinite(), rewards, torch.nan)
        self.metric_log.of_rewards(rewards, len(inputs), time.perf_counter() - start)
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        """TRL's rollout batch; a `RolloutBatch` of all ranks' completions is kept for its training."""
        self.group_fields.read(inputs)
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if not self.model.training:
            return output
        n = len(output["completion_ids"])
        output["row"] = torch.arange(n, device=output["completion_ids"].device)
        rollouts = self._new_rollouts(output, [x.get("prompt") for x in inputs])
        self._rollouts = rollouts
        old = output.get("old_per_token_logps")
        if old is None and not self._fits_in_micro_batch(rollouts):
            with torch.no_grad():
                old = self.log_probs.of_batch(
                    self.model, output, batch_size=self.args.per_device_train_batch_size
                )[0]
        if old is not None:
            rollouts.set_snapshot(self._gathered(old.float(), rollouts))
        if not self._fits_in_micro_batch(rollouts):
            rollouts.refresh(rollouts.groups.log_probs_old, self.state.global_step)
            self.metric_log.of_fit(rollouts, rollouts.fit)
        return output

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        """One micro-batch, of whole groups if it can hold them; coefficients are refreshed after an update."""
        realign_steps(self)
        before = self._rollouts
        inputs = super()._prepare_inputs(generation_batch)
        if not self.model.training:
            return inputs
        steps = self.args.steps_per_generation
        if self.rollouts is not before and self._whole_groups:
            self._buffered_inputs = regrouped(self._buffered_inputs, self.num_generations)
        rollouts = self.rollouts
        if not self._fits_in_micro_batch(rollouts) and rollouts.fit_step != self.state.global_step:
            rollouts.refresh(self._current_log_probs(rollouts), self.state.global_step)
            self.metric_log.of_fit(rollouts, rollouts.fit)
        return self._buffered_inputs[self._step % steps]

    def compute_loss(self, model: Any, inputs: Any, *more: Any, **options: Any) -> Any:
        """The loss; if a step is split into micro-batches, their gradients are added up here."""
        micro = self.micro_batch
        if micro is None or not self.model.training or not self._whole_groups:
            return super().compute_loss(model, inputs, *more, **options)
        return micro.backward(model, inputs, lambda part: self._compute_loss(model, part))

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        """Σ sg(c)·log_prob over the rows of this micro-batch, scaled for ranks and accumulation.

        In evaluation, the objective's own value on the batch's groups.
        """
        if not self.model.training:
            return self._eval_loss(model, inputs)
        rollouts = self.rollouts
        log_probs, entropies, *aux = self.log_probs.of_batch(model, inputs, compute_entropy=True)
        rows = inputs["row"] + rollouts.first_row
        fit = rollouts.fit
        if self._fits_in_micro_batch(rollouts):
            now = log_probs.detach().float()
            fit = rollouts.fit_micro_batch(rows, now, self.state.global_step)
            self.metric_log.of_fit(rollouts, fit, rows if self._whole_groups else None)
        assert fit is not None
        c = rollouts.flat(fit.coefficients)[rows, : log_probs.shape[1]]
        mask = token_mask(inputs)
        loss = (c * torch.where(mask, log_probs, 0.0)).sum() * self._scale()
        self.skip_steps.record(rollouts, inputs, rows, log_probs.detach() * mask, c)
        self.metric_log.add(
            entropy=self.collectives.token_mean(entropies.detach(), mask),
            **step_metrics(rollouts, fit, rows, mask, self.collectives),
        )
        if getattr(self, "aux_loss_enabled", False):
            steps = self.current_gradient_accumulation_steps
            steps *= self.micro_batch.parts if self.micro_batch else 1
            loss = loss + self.router_aux_loss_coef * aux[0] / steps
        return loss

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        **more: Any,
    ) -> tuple[Any, ...]:
        """TRL's, with its parameters: log-probs and entropies. Without gradient, in micro-batches that fit."""
        of_trl = super()._get_per_token_logps_and_entropies
        arguments = (model, input_ids, attention_mask, logits_to_keep)

        def forward(size: int | None) -> tuple[Any, ...]:
            return self.log_probs.of_tokens(of_trl, arguments, size, compute_entropy, more)

        micro = self.micro_batch
        if micro is None or torch.is_grad_enabled():
            return forward(batch_size)
        return micro.fitting(lambda: forward(micro.rows_without_gradient))

    # Parts of the hooks

    @property
    def rollouts(self) -> RolloutBatch:
        """The rollout batch that is being trained on."""
        assert self._rollouts is not None
        return self._rollouts

    @property
    def _whole_groups(self) -> bool:
        """Whether every micro-batch holds whole groups; images cannot be put back in order."""
        multiple = self.args.per_device_train_batch_size % self.num_generations == 0
        return multiple and not self.rollouts.images

    def _fits_in_micro_batch(self, rollouts: RolloutBatch) -> bool:
        """Whether the coefficients of a micro-batch follow from its own forward pass."""
        updated = self.state.global_step != rollouts.step
        return fits_micro_batch(self.objective, updated, self._whole_groups)

    def _scale(self) -> float:
        """Undoes DDP's mean over ranks, and scales up a step that has only a part of a rollout batch."""
        micro_batches = self.args.steps_per_generation / self.current_gradient_accumulation_steps
        return float(self.accelerator.num_processes * micro_batches)

    def _eval_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        """The objective's value where the policy is the snapshot; 0 with one completion per prompt."""
        log_probs, entropies, *aux = self.log_probs.of_batch(model, inputs, compute_entropy=True)
        rollouts = self._new_rollouts(inputs, [])
        rollouts.set_snapshot(self._gathered(log_probs.float(), rollouts))
        mask = token_mask(inputs)
        self.metric_log.add(entropy=self.collectives.token_mean(entropies, mask))
        loss = log_probs.new_zeros(())
        if rollouts.shape[1] > 1:
            loss = rollouts.loss()
            fit = rollouts.compute_fit(rollouts.groups.log_probs_old)
            rows = torch.arange(len(log_probs), device=log_probs.device) + rollouts.first_row
            self.metric_log.add(**step_metrics(rollouts, fit, rows, mask, self.collectives))
        if getattr(self, "aux_loss_enabled", False):
            loss = loss + self.router_aux_loss_coef * aux[0]
        return loss

    def _new_rollouts(self, output: dict[str, Any], prompts: list[Any]) -> RolloutBatch:
        groups = groups_of(self, output, self._rewards)
        if self.model.training:
            self.metric_log.of_scores(groups)
            self.group_fields.observe(groups)
        own_kl = self.objective.traits.kl
        n = len(output["completion_ids"])
        return RolloutBatch(
            self.objective,
            groups,
            0.0 if own_kl else self.beta,
            self.state.global_step,
            self.accelerator.process_index * n,
            prompts,
            images="num_images" in output,
            kl_correction=self.args.use_bias_correction_kl,
        )

    def _current_log_probs(self, rollouts: RolloutBatch) -> Tensor:
        """[G, K, T] log-probs of all ranks' rows under the policy as it is now."""
        T = max(batch["completion_ids"].shape[1] for batch in self._buffered_inputs)
        n = sum(len(batch["row"]) for batch in self._buffered_inputs)
        local = torch.zeros(n, T, device=self.accelerator.device)
        with torch.no_grad():
            for batch in self._buffered_inputs:
                local[batch["row"]] = self.log_probs.of_batch(self.model, batch)[0].float()
        return self._gathered(local, rollouts)

    def _gathered(self, local: Tensor, rollouts: RolloutBatch) -> Tensor:
        """[n, T] of each rank as [G, K, T] on every rank."""
        return self.collectives.gather_rows(local).reshape(rollouts.shape)
