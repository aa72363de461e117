"""TargetPolicyTrainer: TRL's GRPO trainer with the loss of any objective that needs no critic.

Eight hooks, each around TRL's own method: a step keeps to kernels with a sound gradient, completions come from
a faster sampler and their log-probs from packed groups where that fits, rewards are kept raw, a rollout batch
becomes a `Generation`, its coefficients are kept up to date, a step is split into micro-batches that fit the
memory, and the loss is Σ sg(c)·log_prob. TRL shuffles candidates over micro-batches and ranks; as the
coefficients are made from whole groups, the gradient is the objective's wherever rows land.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from trl import GRPOTrainer

import tpo
from tpo.llm.group_metrics import Watch, score_metrics
from tpo.llm.objective_structure import coupled
from tpo.llm.packed import attention
from tpo.llm.packed.log_probs import Rows, shared
from tpo.llm.rewards.guarded import Beginning, failed_shares, guard_all
from tpo.llm.trl.compat import (
    check_hooks,
    forward_options,
    packs,
    realigned,
    regrouped,
    sampled,
    sampler_of,
    token_mask,
)
from tpo.llm.trl.config import TargetPolicyConfig
from tpo.llm.trl.counters import Lost
from tpo.llm.trl.distributed import Ranks
from tpo.llm.trl.dithering import spread
from tpo.llm.trl.metrics import fit_metrics, step_metrics
from tpo.llm.trl.micro_batch import MicroBatch
from tpo.llm.trl.rollout_batch import Fit, Generation
from tpo.llm.trl.skip_steps import SkipSteps

Tensor = torch.Tensor


class TargetPolicyTrainer(GRPOTrainer):  # type: ignore[misc]
    """Train a language model with any objective of `tpo.list_objectives()` that needs no critic.

    Takes what TRL's `GRPOTrainer` takes, with a `TargetPolicyConfig`. If the per-device batch holds whole
    groups (`per_device_train_batch_size` a multiple of `num_generations`) or the objective looks at one
    candidate at a time, coefficients come from the training pass itself; otherwise from one more pass, without
    gradient.
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
        """As TRL's; a reward function that raises is counted and its rows are left out.

        If no function scores anything of the first rollout batches, the run ends.
        """
        check_hooks(GRPOTrainer)
        args = TargetPolicyConfig("tpo-output") if args is None else args
        if not isinstance(args, TargetPolicyConfig):
            raise TypeError(
                f"args is a {type(args).__name__}, expected a tpo.llm.TargetPolicyConfig"
            )
        self.objective = args.build()
        self._generation: Generation | None = None
        self._watch = Watch(args.patience, self.objective)
        self._beginning = Beginning()
        self._cudnn = attention.cudnn_allowed()
        rewards = guard_all(reward_funcs, args.reward_timeout)
        super().__init__(model, rewards, args, *more, **options)
        if args.drop_truncated_completions:
            self.mask_truncated_completions = True  # a candidate without tokens leaves its group
        if args.bf16 and args.spread_weights:
            spread(self.model, args.seed)
        self._forward_options = forward_options()
        self.sampler = None if self.use_vllm else sampler_of(self)
        self._packs = packs(self)
        self._ranks = Ranks(self.accelerator)
        self.micro_batch = None if args.micro_batch is None else MicroBatch(self, args.micro_batch)
        self.skipping = SkipSteps(self)
        self.add_callback(self.skipping)
        self.lost = Lost(self.skipping, self.reward_funcs)
        self.add_callback(self.lost)

    # The eight hooks

    def training_step(self, *given: Any, **options: Any) -> Tensor:
        """Without cuDNN's attention, but for sampling: with a mask, its gradient is NaN at some lengths."""
        with attention.cudnn(False) as self._cudnn:
            loss: Tensor = super().training_step(*given, **options)
        return loss

    def _generate_single_turn(
        self, prompt_ids: Any, images: Any, *more: Any, **options: Any
    ) -> Any:
        """A completion for each row; by the sampler where it fits."""
        with attention.cudnn(self._cudnn):
            if self.sampler is None or images is not None:
                return super()._generate_single_turn(prompt_ids, images, *more, **options)
            start, before = time.perf_counter(), self.sampler.sampled
            found = self.sampler(prompt_ids, self.temperature)
        seconds = time.perf_counter() - start
        rate = (self.sampler.sampled - before) / seconds
        self._note(rollout_time=seconds, rollout_tokens_per_second=rate)
        return found, None

    def _calculate_rewards(self, inputs: Any, *more: Any) -> Tensor:
        """Keep the raw rewards [N, R] of all ranks; NaN where a reward is missing, NaN or infinite."""
        start = time.perf_counter()
        rewards: Tensor = super()._calculate_rewards(inputs, *more)
        rewards = torch.where(rewards.isfinite(), rewards, torch.nan)
        self._rewards = rewards
        unscored = rewards.isnan().all(-1).float().mean().item()
        failed = self._failed(rewards, len(inputs))
        self._note(reward_time=time.perf_counter() - start, reward_failures=unscored)
        self._note(**{f"reward_failures/{name}": share for name, share in failed.items()})
        if self.model.training:
            self._beginning.note(unscored, self.reward_funcs, failed)
        return rewards

    def _failed(self, rewards: Tensor, rows: int) -> dict[str, float]:
        """The share of all ranks' rows that each reward function lost by a failure."""
        missing = rewards.isnan().float().mean(0).tolist()
        own = failed_shares(self.reward_funcs, self.reward_func_names, rows, missing)
        shares = self._ranks.mean(torch.tensor(list(own.values()), device=rewards.device))
        return dict(zip(own, shares, strict=True))

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        """TRL's rollout batch, and a `Generation` made of what all ranks rolled out."""
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if not self.model.training:
            return output
        n = len(output["completion_ids"])
        output["row"] = torch.arange(n, device=output["completion_ids"].device)
        generation = self._new_generation(output, [x.get("prompt") for x in inputs])
        self._generation = generation
        old = output.get("old_per_token_logps")
        if old is None and not self._is_live(generation):
            with torch.no_grad():
                old = self._forward(
                    self.model, output, batch_size=self.args.per_device_train_batch_size
                )[0]
        if old is not None:
            generation.snapshot(self._everywhere(old.float(), generation))
        if not self._is_live(generation):
            generation.refresh(generation.group.log_probs_old, self.state.global_step)
            self._note_fit(generation, generation.fit)
        return output

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        """One micro-batch; groups kept whole where they fit, coefficients refreshed after an update."""
        realigned(self)
        before = self._generation
        inputs = super()._prepare_inputs(generation_batch)
        if not self.model.training:
            return inputs
        steps = self.args.steps_per_generation
        if self.generation is not before and self._whole:
            self._buffered_inputs = regrouped(self._buffered_inputs, self.num_generations)
        generation = self.generation
        if not self._is_live(generation) and generation.refreshed != self.state.global_step:
            generation.refresh(self._rescored(generation), self.state.global_step)
            self._note_fit(generation, generation.fit)
        return self._buffered_inputs[self._step % steps]

    def compute_loss(self, model: Any, inputs: Any, *more: Any, **options: Any) -> Any:
        """The loss; where a step is split, its gradients are added up here."""
        micro = self.micro_batch
        if micro is None or not self.model.training or not self._whole:
            return super().compute_loss(model, inputs, *more, **options)
        return micro.backward(model, inputs, lambda part: self._compute_loss(model, part))

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        """Σ sg(c)·log_prob over the rows of this micro-batch, scaled for ranks and accumulation.

        In evaluation, the objective's own value on the batch's groups.
        """
        if not self.model.training:
            return self._eval_loss(model, inputs)
        generation = self.generation
        log_probs, entropies, *aux = self._forward(model, inputs, compute_entropy=True)
        rows = inputs["row"] + generation.first_row
        fit = self._fit(generation, rows, log_probs.detach().float())
        c = generation.flat(fit.coefficients)[rows, : log_probs.shape[1]]
        mask = token_mask(inputs)
        loss = (c * torch.where(mask, log_probs, 0.0)).sum() * self._scale()
        self.skipping.watch(generation, inputs, rows, log_probs.detach() * mask, c)
        self._note(
            entropy=self._ranks.mean_over(entropies.detach(), mask),
            **step_metrics(generation, fit, rows, mask, self._ranks),
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
        """Log-probs and entropies of completions; groups are read as one sequence each where they are whole."""
        micro = self.micro_batch
        given = (model, input_ids, attention_mask, logits_to_keep)
        if micro is None or torch.is_grad_enabled():
            return self._log_probs(*given, batch_size, compute_entropy, **more)
        return micro.fitting(
            lambda: self._log_probs(*given, micro.rows_without_gradient, compute_entropy, **more)
        )

    def _log_probs(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        batch_size: int | None,
        compute_entropy: bool,
        **more: Any,
    ) -> tuple[Any, ...]:
        K = self.num_generations
        text_only = not any(value is not None and value is not False for value in more.values())
        if not (self._packs and text_only and shared(input_ids[:, :-logits_to_keep], K)):
            more |= {"batch_size": batch_size, "compute_entropy": compute_entropy}
            return super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, **more
            )
        plain = self.accelerator.unwrap_model(model)
        rows = Rows(input_ids, attention_mask, logits_to_keep)
        with self.accelerator.autocast():
            return *rows.log_probs(plain, K, self.temperature, batch_size, compute_entropy), None

    # What the hooks are made of

    @property
    def generation(self) -> Generation:
        """The rollout batch that is being trained on."""
        assert self._generation is not None
        return self._generation

    @property
    def _whole(self) -> bool:
        """Whether every micro-batch holds whole groups; images cannot be put back in order."""
        fits = self.args.per_device_train_batch_size % self.num_generations == 0
        return fits and not self.generation.images

    def _is_live(self, generation: Generation) -> bool:
        """Whether the training pass over a micro-batch says all that its coefficients need."""
        updated = self.state.global_step != generation.step
        return self._whole or not coupled(self.objective, updated)

    def _fit(self, generation: Generation, rows: Tensor, log_probs: Tensor) -> Fit:
        step = self.state.global_step
        if self._is_live(generation):
            fit = generation.live(rows, log_probs, step)
            self._note_fit(generation, fit, rows if self._whole else None)
            return fit
        assert generation.fit is not None
        return generation.fit

    def _scale(self) -> float:
        """DDP averages over ranks, and an optimiser step spans this many micro-batches of a rollout batch."""
        micro_batches = self.args.steps_per_generation / self.current_gradient_accumulation_steps
        return float(self.accelerator.num_processes * micro_batches)

    def _forward(self, model: Any, inputs: dict[str, Any], **options: Any) -> tuple[Any, ...]:
        """TRL's own forward pass on a batch: log-probs, entropies, and what else it returns."""
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
        mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
        extra = {k: inputs[k] for k in self._forward_options if inputs.get(k) is not None}
        if getattr(self, "aux_loss_enabled", False) and options.get("compute_entropy"):
            options["compute_aux_loss"] = True
        found = self._get_per_token_logps_and_entropies(
            model, ids, mask, inputs["completion_ids"].shape[1], **extra, **options
        )
        return tuple(found)

    def _eval_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        """The objective's value where the policy is the snapshot; 0 with one completion per prompt."""
        log_probs, entropies, *aux = self._forward(model, inputs, compute_entropy=True)
        generation = self._new_generation(inputs, [])
        generation.snapshot(self._everywhere(log_probs.float(), generation))
        self._note(entropy=self._ranks.mean_over(entropies, token_mask(inputs)))
        loss = log_probs.new_zeros(())
        if generation.shape[1] > 1:
            loss = generation.loss()
            fit = generation.fitted(generation.group.log_probs_old)
            rows = torch.arange(len(log_probs), device=log_probs.device) + generation.first_row
            self._note(**step_metrics(generation, fit, rows, token_mask(inputs), self._ranks))
        if getattr(self, "aux_loss_enabled", False):
            loss = loss + self.router_aux_loss_coef * aux[0]
        return loss

    def _new_generation(self, output: dict[str, Any], prompts: list[Any]) -> Generation:
        mask = self._ranks.gathered(token_mask(output))
        rewards = self._rewards.float()
        weights = self.reward_weights.to(rewards.device)
        scores = torch.where(rewards.isnan(), 0.0, rewards) * weights
        valid = ~rewards.isnan().all(-1) & self._ranks.kept(output)
        K = self.num_generations if self.model.training else self.num_generations_eval
        G = len(rewards) // K
        scores = scores.reshape(G, K, -1)
        given = {
            "log_probs_ref": output.get("ref_per_token_logps"),
            "log_probs_rollout": sampled(output),
        }
        more = {k: self._ranks.gathered(x.float()) for k, x in given.items() if x is not None}
        group = tpo.Groups(
            log_probs_old=torch.zeros(mask.shape, device=mask.device).reshape(G, K, -1),
            scores=scores[..., 0] if scores.shape[-1] == 1 else scores,
            mask=mask.reshape(G, K, -1),
            valid=valid.reshape(G, K),
            scored=valid.reshape(G, K) if self.args.mask_truncated_completions else None,
            **{k: x.reshape(G, K, -1) for k, x in more.items()},
        )
        if self.model.training:
            self._note_scores(group)
        own_kl = hasattr(self.objective, "beta")
        n = len(output["completion_ids"])
        return Generation(
            self.objective,
            group,
            0.0 if own_kl else self.beta,
            self.state.global_step,
            self.accelerator.process_index * n,
            prompts,
            images="num_images" in output,
            kl_correction=self.args.use_bias_correction_kl,
        )

    def _rescored(self, generation: Generation) -> Tensor:
        """[G, K, T] log-probs under the policy as it is now, of all ranks' rows."""
        T = max(batch["completion_ids"].shape[1] for batch in self._buffered_inputs)
        n = sum(len(batch["row"]) for batch in self._buffered_inputs)
        local = torch.zeros(n, T, device=self.accelerator.device)
        with torch.no_grad():
            for batch in self._buffered_inputs:
                local[batch["row"]] = self._forward(self.model, batch)[0].float()
        return self._everywhere(local, generation)

    def _everywhere(self, local: Tensor, generation: Generation) -> Tensor:
        """[n, T] of each rank as [G, K, T] on every rank."""
        return self._ranks.gathered(local).reshape(generation.shape)

    # Logs

    def _note(self, **values: float) -> None:
        mode = "train" if self.model.training else "eval"
        for name, value in values.items():
            self._metrics[mode][name].append(value)

    def _note_scores(self, group: tpo.Groups) -> None:
        found = score_metrics(group, self.args.success)
        self._note(**found)
        truncated = self._metrics["train"]["completions/clipped_ratio"] or [0.0]
        self._watch.scores(found, truncated[-1])

    def _note_fit(
        self, generation: Generation, fit: Fit | None, rows: Tensor | None = None
    ) -> None:
        own = fit_metrics(generation, fit, rows, self.args.success)
        if not own:
            return
        found = dict(zip(own, self._ranks.mean(torch.stack(list(own.values()))), strict=True))
        self._note(**found)
        if not generation.watched:
            generation.watched = True
            self._watch.fit(found)
