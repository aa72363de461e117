"""Train a language model by a recipe: tokenizer, task, trainer, evaluation, a saved model with its card.

DIR/recipe.json          what was asked for
DIR/micro_batch.json     the micro-batch that fits the memory, where it was measured; a resume takes it
DIR/log.jsonl            every step's numbers
DIR/samples.jsonl        the last rollout batch
DIR/evaluations.jsonl    greedy accuracy and pass@k on held-out prompts
DIR/checkpoints          TRL's, to resume from, where save_every is not 0
DIR/model                the final model (safetensors), its tokenizer and card, unless discard_model is set
DIR/result.json          where it ended, what it took, and provenance; there when the run is complete
"""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback

from tpo.llm.rewards.pool import Scoring
from tpo.llm.runs import models
from tpo.llm.runs.artifacts import last_checkpoint, read_lines, write_lines
from tpo.llm.runs.costs import account
from tpo.llm.runs.evaluation import Evaluation, NothingScoredError, as_text, check_scored, evaluate
from tpo.llm.runs.folders import check_folder, recipe_json
from tpo.llm.runs.model_card import card
from tpo.llm.runs.progress import Progress
from tpo.llm.runs.recipe import Recipe
from tpo.llm.tasks import TextTask, task
from tpo.llm.trl.config import TargetPolicyConfig
from tpo.llm.trl.counters import Seconds
from tpo.llm.trl.trainer import TargetPolicyTrainer
from tpo.storage.files import read_json, write_json, write_text
from tpo.storage.provenance import commit, versions
from tpo.version import __version__


def train(
    recipe: Recipe, resume: bool = False, quiet: bool = False, base: Path | None = None
) -> dict[str, Any]:
    """Run the recipe and return what stands in result.json; a finished run is not run again.

    base: where a GGUF file is converted to, for runs that share one; `base` in the run's folder without it.
    """
    out = Path(recipe.out)
    check_folder(recipe, out, resume)
    done = read_json(out / "result.json")
    if done is not None:
        found: dict[str, Any] = done
        return found
    seconds = Seconds()
    ready = get_ready(recipe, base or out / "base")
    trainer = ready.trainer
    if trainer.accelerator.is_main_process:
        write_json(out / "recipe.json", recipe_json(recipe))
    _keep_micro_batch(trainer, out, quiet)
    trainer.remove_callback(PrinterCallback)
    progress = Progress(trainer, out, recipe.samples, quiet)
    trainer.add_callback(progress)
    trainer.add_callback(Evaluator(ready, recipe))
    trainer.add_callback(seconds)  # after the evaluation, which takes some
    checkpoint = last_checkpoint(recipe.checkpoints) if resume else None
    if resume and checkpoint is None and not quiet and trainer.accelerator.is_main_process:
        print(f"no checkpoint in {recipe.checkpoints}: the run starts again", file=sys.stderr)
    try:
        trainer.train(resume_from_checkpoint=checkpoint)
    except NothingScoredError:
        (out / "recipe.json").unlink(missing_ok=True)  # no run: the corrected command starts it
        raise
    finally:
        ready.scoring.close()
        progress.close()
    return _finished(recipe, trainer, seconds.total)


def _keep_micro_batch(trainer: TargetPolicyTrainer, out: Path, quiet: bool) -> None:
    """Take the micro-batch of the run that is resumed; write down one that is measured or halved."""
    micro, path = trainer.micro_batch, out / "micro_batch.json"
    if micro is None:
        return
    kept = read_json(path)
    if kept is not None:
        micro.rows = kept["micro_batch"]

    def changed(rows: int) -> None:
        if trainer.accelerator.is_main_process:
            write_json(path, {"micro_batch": rows})
            if not quiet:
                print(f"micro-batch: {rows} completions", file=sys.stderr)

    micro.changed = changed


class Ready(NamedTuple):
    """A trainer, and what it was made of."""

    trainer: TargetPolicyTrainer
    source: str
    """the folder or name that the model was read from"""
    task: TextTask
    scoring: Scoring
    """of training"""

    def evaluate(self, own: Scoring, k: int, start: Any = None, seed: int = 0) -> Evaluation:
        """The model as it is now, on held-out prompts with k samples each, by a scoring of its own."""
        trainer = self.trainer
        alike = trainer.accelerator.autocast() if start is not None else contextlib.nullcontext()
        with alike:  # the model at the start computes in the precision of the trained one
            return evaluate(
                trainer.accelerator.unwrap_model(trainer.model),
                trainer.processing_class,
                self.task.held_out,
                own,
                k=k,
                max_new_tokens=trainer.args.max_completion_length,
                temperature=trainer.args.temperature,
                success=trainer.args.success,
                drop_truncated=trainer.args.drop_truncated_completions,
                seed=seed,
                sampler=trainer.sampler,
                start=start,
                chat_template_kwargs=trainer.args.chat_template_kwargs,
            )


def get_ready(recipe: Recipe, base: Path) -> Ready:
    """The trainer of a recipe; `base` is where a GGUF file is converted to."""
    chosen = task_of(recipe)  # before the model is read: a wrong name is found at once
    config = recipe.config()
    if config.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()  # an earlier run in this process had its own
    with config.main_process_first():
        name = models.prepared(recipe.model, base)
    tokenizer = models.read_tokenizer(name)
    chosen = _for(tokenizer, chosen)
    scoring = chosen.scoring(recipe.timeout, recipe.scorers)
    scoring.check()
    trainer = make_trainer(recipe, config, name, tokenizer, chosen, scoring)
    return Ready(trainer, name, chosen, scoring)


def task_of(recipe: Recipe) -> TextTask:
    """The recipe's task."""
    return task(
        recipe.task,
        recipe.task_options,
        scorer=recipe.scorer,
        hint=recipe.hint,
        extract=recipe.extract,
        threshold=recipe.threshold,
        size=recipe.size,
        held_out=recipe.held_out,
    )


def _for(tokenizer: Any, chosen: TextTask) -> TextTask:
    """The task with its conversations as plain text, for a model without a chat template."""
    if getattr(tokenizer, "chat_template", None):
        return chosen
    train, held_out = (_plain_prompts(part, tokenizer) for part in (chosen.train, chosen.held_out))
    return replace(chosen, train=train, held_out=held_out)


def _plain_prompts(part: Any, tokenizer: Any) -> Any:
    from datasets import Dataset

    columns = {name: list(part[name]) for name in part.column_names}
    columns["prompt"] = [as_text(tokenizer, prompt) for prompt in columns["prompt"]]
    return Dataset.from_dict(columns)


def make_trainer(
    recipe: Recipe,
    config: TargetPolicyConfig,
    name: str,
    tokenizer: Any,
    chosen: TextTask,
    scoring: Scoring,
) -> TargetPolicyTrainer:
    """The trainer of a recipe."""
    lora = None
    if recipe.lora:
        from peft import LoraConfig

        lora = LoraConfig(
            r=recipe.lora,
            lora_alpha=2 * recipe.lora,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        )
    return TargetPolicyTrainer(
        name,
        scoring,
        config,
        train_dataset=chosen.train,
        processing_class=tokenizer,
        peft_config=lora,
    )


class Evaluator(TrainerCallback):  # type: ignore[misc]
    """Evaluates on held-out prompts before, every so often, and after; into DIR/evaluations.jsonl."""

    def __init__(self, ready: Ready, recipe: Recipe) -> None:
        """Its scoring has a count of its own, apart from training's."""
        self.ready, self.recipe = ready, recipe
        self.scoring = ready.scoring.with_own_failures()
        self.path = Path(recipe.out) / "evaluations.jsonl"

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Before the first step; after a resume only what lies ahead."""
        if not state.is_world_process_zero:
            return
        write_lines(self.path, [r for r in read_lines(self.path) if r["step"] <= state.global_step])
        if state.global_step == 0:
            self._evaluate(state)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Every `eval_every` steps, or rollout batches; the last is for the end."""
        every = self.recipe.in_steps(self.recipe.eval_every)
        if every and state.global_step % every == 0 and state.global_step < state.max_steps:
            self._evaluate(state)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """After the last step."""
        start = None
        if self.recipe.eval_kl:
            start = models.read_model(self.ready.source, self.ready.trainer.model)
        self._evaluate(state, start)

    def _evaluate(self, state: Any, start: Any = None) -> None:
        rows = read_lines(self.path)
        if any(row["step"] == state.global_step for row in rows) or not state.is_world_process_zero:
            return
        found = self.ready.evaluate(self.scoring, self.recipe.eval_samples, start)
        if state.global_step == 0:
            check_scored(found, self.scoring)
        write_lines(self.path, [*rows, {"step": state.global_step, **found._asdict()}])


def _finished(recipe: Recipe, trainer: TargetPolicyTrainer, seconds: float) -> dict[str, Any]:
    out = Path(recipe.out)
    steps, micro = trainer.state.global_step, trainer.micro_batch
    result = {
        "steps": steps,
        "micro_batch": micro.rows if micro else trainer.args.per_device_train_batch_size,
        **account(read_lines(out / "log.jsonl"), trainer.args, steps),
        "evaluations": read_lines(out / "evaluations.jsonl"),
        "skipped_steps": trainer.skipping.skipped,
        "skips": trainer.skipping.reports,
        "zero_gradient_steps": trainer.skipping.zero_gradient,
        "reward_failures": trainer.counters.by_kind,
        "seconds": seconds,
        "provenance": provenance(trainer),
    }
    if not recipe.discard_model:
        _save_model(trainer, out / "model", card(recipe, result))
    if trainer.accelerator.is_main_process:
        write_json(out / "result.json", result)
    trainer.accelerator.wait_for_everyone()
    return result


def _save_model(trainer: TargetPolicyTrainer, folder: Path, description: str) -> None:
    trainer.save_model(str(folder))
    if trainer.accelerator.is_main_process:
        (folder / "training_args.bin").unlink(missing_ok=True)  # a pickle; recipe.json says it all
        trainer.processing_class.save_pretrained(folder)
        write_text(folder / "README.md", description)


def provenance(trainer: Any) -> dict[str, Any]:
    """With what and on what the run was made."""
    device = trainer.accelerator.device
    packages = ("numpy", "torch", "transformers", "trl", "peft", "accelerate", "datasets", "vllm")
    return {
        "commit": commit(),
        "versions": {"tpo": __version__, **versions(packages)},
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "processes": trainer.accelerator.num_processes,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }
