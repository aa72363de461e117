"""A trainer that checks its own gradient, before every optimiser step, against float64 autograd over whole groups.

The reference shares nothing with the trainer but the objective's `loss`: plain logits of a float64 copy of the model,
all groups of a rollout batch at once, and a stop-gradient on the rows that this step does not train.
"""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import Any

import torch
from accelerate.utils import gather_object
from transformers import TrainerCallback

import tpo
from support import tiny_model
from tpo.llm import TargetPolicyTrainer


class Checked(TargetPolicyTrainer):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.errors: list[float] = []
        self.signals = 0
        self.passes = 0
        self._batches: list[dict[str, Any]] = []
        self._micro: list[tuple[int, list[int]]] = []
        self._doubles: dict[int, Any] = {}
        self.add_callback(_Compare(self))

    def _get_per_token_logps_and_entropies(self, *args: Any, **options: Any) -> Any:
        if not torch.is_grad_enabled():
            self.passes += 1
        return super()._get_per_token_logps_and_entropies(*args, **options)

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)
        if self.model.training:
            rows = [
                {
                    "prompt": p[m.bool()].tolist(),
                    "completion": c.tolist(),
                    "mask": k.bool().tolist(),
                }
                for p, m, c, k in zip(
                    output["prompt_ids"], output["prompt_mask"], output["completion_ids"], output["completion_mask"],
                    strict=True,
                )
            ]  # fmt: skip
            batch = {"rows": gather_object(rows), "rewards": self._rewards.double().clone()}
            batch["old"] = self._float64_log_probs(batch).detach()
            if "task" in inputs[0]:
                tasks = [ord(row["task"]) - ord("a") for row in inputs]
                batch["tasks"] = torch.tensor(gather_object(tasks)[:: self.num_generations])
            if "log_probs_rollout" in self.objective.needs:
                rollout = output["sampling_per_token_logps"].double()
                batch["rollout"] = rollout.reshape(-1, self.num_generations, rollout.shape[1])
            if "baseline" in self.objective.needs:
                batch["greedy"] = self._greedy_scores(batch)
            if self.beta:
                batch["ref"] = self._float64_log_probs(batch, reference=True).detach()
            self._batches.append(batch)
        return output

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        if self.model.training:
            first = self.accelerator.process_index * self._local_rows()
            rows = gather_object([first + i for i in inputs["row"].tolist()])
            self._micro.append((len(self._batches) - 1, rows))
        return super()._compute_loss(model, inputs)

    def _local_rows(self) -> int:
        return len(self._batches[-1]["rows"]) // self.accelerator.num_processes

    def _double(self, reference: bool) -> Any:
        """A float64 copy of the model as it is now, or of the model that is the reference."""
        of = self.ref_model if reference and self.ref_model is not None else self.model
        model = self.accelerator.unwrap_model(of)
        if id(model) not in self._doubles:
            double = copy.deepcopy(model).double()
            for module in double.modules():
                module.__dict__.pop("forward", None)  # TRL's fused head, bound to the original
            if hasattr(double, "gradient_checkpointing_disable"):
                double.gradient_checkpointing_disable()
            self._doubles[id(model)] = double
        double = self._doubles[id(model)]
        double.load_state_dict(model.state_dict())
        double.train(model.training)
        double.zero_grad()
        return double

    def _float64_log_probs(
        self, batch: dict[str, Any], double: Any = None, reference: bool = False
    ) -> torch.Tensor:
        """[G, K, T] without padding: rows of one length together."""
        double = self._double(reference) if double is None else double
        rows = batch["rows"]
        T = max(len(row["completion"]) for row in rows)
        off = (
            double.disable_adapter()
            if reference and hasattr(double, "disable_adapter")
            else nullcontext()
        )
        lengths: dict[tuple[int, int], list[int]] = {}
        for i, row in enumerate(rows):
            lengths.setdefault((len(row["prompt"]), len(row["completion"])), []).append(i)
        found: list[Any] = [None] * len(rows)
        with off:
            for (prompt, completion), those in lengths.items():
                ids = torch.tensor([rows[i]["prompt"] + rows[i]["completion"] for i in those])
                logits = double(input_ids=ids).logits[:, prompt - 1 : -1] / self.temperature
                lp = logits.log_softmax(-1).gather(-1, ids[:, prompt:, None])[..., 0]
                padded = torch.nn.functional.pad(lp, (0, T - completion))
                for i, one in zip(those, padded, strict=True):
                    found[i] = one
        return torch.stack(found).reshape(-1, self.num_generations, T)

    def _greedy_scores(self, batch: dict[str, Any]) -> torch.Tensor:
        """[G] of one greedy completion per prompt, token by token with the float64 copy."""
        double, found = self._double(reference=False), []
        for row in batch["rows"][:: self.num_generations]:
            ids, prompt = list(row["prompt"]), len(row["prompt"])
            while len(ids) < prompt + self.max_completion_length and (
                ids[-1] != tiny_model.EOS or len(ids) == prompt
            ):
                ids.append(int(double(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
            text = self.processing_class.decode(ids[prompt:], skip_special_tokens=True)
            found.append(sum(f([""], [text])[0] for f in self.reward_funcs))
        return torch.tensor(found, dtype=torch.float64)

    def _group(self, batch: dict[str, Any]) -> tpo.Groups:
        T = batch["old"].shape[2]
        mask = torch.tensor(
            [row["mask"] + [False] * (T - len(row["mask"])) for row in batch["rows"]]
        )
        rewards = batch["rewards"].reshape(-1, self.num_generations, batch["rewards"].shape[-1])
        scores = torch.where(rewards.isnan(), 0.0, rewards)
        return tpo.Groups(
            log_probs_old=batch["old"],
            scores=scores[..., 0] if scores.shape[-1] == 1 else scores,
            mask=mask.reshape(batch["old"].shape),
            valid=~rewards.isnan().all(-1),
            log_probs_ref=batch.get("ref"),
            baseline=batch.get("greedy"),
            log_probs_rollout=batch.get("rollout"),
            tasks=batch.get("tasks"),
        )

    def reference_gradient(self) -> torch.Tensor:
        double = self._double(reference=False)
        total = torch.zeros((), dtype=torch.float64)
        for j in sorted({j for j, _ in self._micro}):
            batch = self._batches[j]
            log_probs = self._float64_log_probs(batch, double)
            group = self._group(batch)
            prepared = self.objective.prepare(group)
            for rows in [rows for k, rows in self._micro if k == j]:
                own = torch.zeros(log_probs.shape[0] * log_probs.shape[1], dtype=torch.bool)
                own[rows] = True
                x = torch.where(own.reshape(*log_probs.shape[:2], 1), log_probs, log_probs.detach())
                total = total + self.objective.loss(x, prepared)
                if self.beta and not hasattr(self.objective, "beta"):
                    total = total + self.beta * self._kl(x, group, self.args.use_bias_correction_kl)
        weights = [p for p in double.parameters() if p.requires_grad]
        scale = self.args.steps_per_generation / self.args.gradient_accumulation_steps
        gradients = torch.autograd.grad(total * scale, weights, allow_unused=True)
        return tiny_model.flat(
            torch.zeros_like(w) if g is None else g for w, g in zip(weights, gradients, strict=True)
        )

    @staticmethod
    def _kl(x: torch.Tensor, group: tpo.Groups, corrected: bool) -> torch.Tensor:
        """k3 to the reference (r·k3): mean over a candidate's tokens, over candidates, over prompts."""
        d = torch.where(group.mask, x - group.log_probs_ref, 0.0)
        r = torch.where(group.mask, x - group.log_probs_old, 0.0).exp() if corrected else 1.0
        k3 = torch.where(group.mask, r * (torch.exp(-d) + d - 1), 0.0).sum(-1)
        n = group.mask.sum(-1).clamp(min=1)
        return ((k3 / n).sum(-1) / group.valid.sum(-1).clamp(min=1)).mean()


class _Compare(TrainerCallback):
    def __init__(self, trainer: Checked) -> None:
        self.trainer = trainer

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        trainer = self.trainer
        weights = [
            p
            for p in trainer.accelerator.unwrap_model(trainer.model).parameters()
            if p.requires_grad
        ]
        ours = tiny_model.flat(torch.zeros_like(p) if p.grad is None else p.grad for p in weights)
        exact = trainer.reference_gradient()
        size = exact.norm()
        trainer.signals += bool(size > 0)
        error = (ours - exact).norm()
        trainer.errors.append(float(error / size if size > 0 else error))  # no signal: exactly 0
        trainer._micro = []
