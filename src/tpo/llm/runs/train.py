"""Train a language model by a recipe: tokenizer, task, trainer, evaluation, a saved model with its card.

DIR/recipe.json          the options of the run
DIR/revisions.json       model and task at the commits that the hub had; a resume takes them from here
DIR/micro_batch.json     the micro-batch that fits the memory, if it was measured; a resume takes it from here
DIR/log.jsonl            the metrics of every step
DIR/samples.jsonl        the last rollout batch
DIR/evaluations.jsonl    greedy accuracy and pass@k on held-out prompts
DIR/checkpoints          TRL's, to resume from, where save_every is not 0
DIR/model                the final model (safetensors), its tokenizer and card, unless discard_model is set
DIR/result.json          final accuracy, costs and provenance; written when the run is complete
"""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers.trainer_callback import PrinterCallback

from tpo.llm.rewards.pool import Scoring
from tpo.llm.runs import models
from tpo.llm.runs.artifacts import MICRO_BATCH, RESULT, REVISIONS, read_lines
from tpo.llm.runs.checkpoints import newest_whole
from tpo.llm.runs.costs import run_costs
from tpo.llm.runs.evaluation import (
    Evaluation,
    EvaluationSettings,
    NothingScoredError,
    evaluate,
)
from tpo.llm.runs.folders import check_folder, recipe_json
from tpo.llm.runs.model_card import card_text
from tpo.llm.runs.progress import AllStepsTakenError, Evaluator, NoStepTooMany, StepLogger
from tpo.llm.runs.prompts import templated
from tpo.llm.runs.recipe import Recipe
from tpo.llm.tasks import TextTask, task
from tpo.llm.trl.counters import ElapsedSeconds
from tpo.llm.trl.trainer import TargetPolicyTrainer
from tpo.storage.files import write_json, write_text
from tpo.storage.provenance import commit, versions
from tpo.version import __version__


def train(
    recipe: Recipe, resume: bool = False, quiet: bool = False, base: Path | None = None
) -> dict[str, Any]:
    """Run the recipe and return the content of result.json; a complete run is not run again.

    base: the folder that a GGUF file is converted to, for runs that share one; by default `base` in `out`.
    """
    out = Path(recipe.out)
    check_folder(recipe, out, resume)
    done = RESULT.read(out)
    if done is not None:
        return done
    seconds = ElapsedSeconds()
    setup = prepare_training(at_revisions(recipe, out), base or out / "base")
    trainer = setup.trainer
    if trainer.accelerator.is_main_process:
        write_json(out / "recipe.json", recipe_json(recipe))
        if setup.revisions:
            write_json(out / REVISIONS.name, setup.revisions)
    _keep_micro_batch(trainer, out, quiet)
    trainer.remove_callback(PrinterCallback)
    logger = StepLogger(trainer, out, recipe.samples, quiet)
    trainer.add_callback(logger)
    trainer.add_callback(Evaluator(setup, recipe))
    trainer.add_callback(seconds)  # after the evaluation, whose seconds count too
    checkpoint = _checkpoint(trainer, recipe.checkpoints, quiet) if resume else None
    try:
        _take_steps(trainer, checkpoint)
    except NothingScoredError:
        (out / "recipe.json").unlink(missing_ok=True)  # no run: the corrected command starts it
        raise
    finally:
        setup.scoring.close()
        logger.close()
    return _finish(recipe, setup, seconds.total)


def _take_steps(trainer: TargetPolicyTrainer, checkpoint: str | None) -> None:
    """Train until the last step, from a checkpoint if there is one; it may be that of the last step."""
    trainer.add_callback(NoStepTooMany())
    try:
        trainer.train(resume_from_checkpoint=checkpoint)
    except AllStepsTakenError:
        trainer.callback_handler.on_train_end(trainer.args, trainer.state, trainer.control)


def at_revisions(recipe: Recipe, out: Path) -> Recipe:
    """The recipe of a run that is resumed, with model and task at the commits that it was started with."""
    kept = REVISIONS.read(out) or {}
    return replace(
        recipe, model=kept.get("model", recipe.model), task=kept.get("task", recipe.task)
    )


def _checkpoint(trainer: TargetPolicyTrainer, folder: Path, quiet: bool) -> str | None:
    """The newest whole checkpoint, said on stderr where it is not the newest, or where there is none."""
    with trainer.accelerator.main_process_first():
        found, messages = newest_whole(folder)
    if not trainer.accelerator.is_main_process:
        return str(found) if found else None
    if found is None and not quiet:
        messages.append(f"no checkpoint in {folder}: the run starts again")
    elif messages:
        messages.append(f"resuming from {found}")
    for line in messages:
        print(line, file=sys.stderr)
    return str(found) if found else None


def _keep_micro_batch(trainer: TargetPolicyTrainer, out: Path, quiet: bool) -> None:
    """Take the micro-batch of a resumed run from its file; write one that is measured or halved to it."""
    micro, path = trainer.micro_batch, out / "micro_batch.json"
    if micro is None:
        return
    kept = MICRO_BATCH.read(out)
    if kept is not None:
        micro.rows = kept["micro_batch"]

    def on_change(rows: int) -> None:
        if trainer.accelerator.is_main_process:
            write_json(path, {"micro_batch": rows})
            if not quiet:
                print(f"micro-batch: {rows} completions", file=sys.stderr)

    micro.on_change = on_change


class TrainingSetup(NamedTuple):
    """A trainer with its task and scoring, before its first step."""

    trainer: TargetPolicyTrainer
    source: models.Source
    """where the model was read from"""
    task: TextTask
    scoring: Scoring
    """of training; evaluations count their failures apart from its own"""

    @property
    def revisions(self) -> dict[str, str]:
        """The model and the task with the commit of each that is read from the hub."""
        names = {"model": self.source, "task": (self.task.name, self.task.revision)}
        return {key: f"{name}@{revision}" for key, (name, revision) in names.items() if revision}

    def evaluate(
        self, scoring: Scoring, k: int, initial_model: Any = None, seed: int = 0
    ) -> Evaluation:
        """The model as it is now, on held-out prompts with k samples each."""
        trainer, args = self.trainer, self.trainer.args
        settings = EvaluationSettings(
            k=k,
            max_new_tokens=args.max_completion_length,
            temperature=args.temperature,
            success=args.success,
            drop_truncated=args.drop_truncated_completions,
            chat_template_kwargs=args.chat_template_kwargs,
            seed=seed,
            sampler=trainer.sampler,
        )
        # the initial model computes in the precision of the trained one
        alone = initial_model is None
        with contextlib.nullcontext() if alone else trainer.accelerator.autocast():
            return evaluate(
                trainer.accelerator.unwrap_model(trainer.model),
                trainer.processing_class,
                self.task.held_out,
                scoring,
                settings,
                initial_model,
            )


def prepare_training(recipe: Recipe, base: Path) -> TrainingSetup:
    """The trainer of a recipe; `base` is the folder that a GGUF file is converted to."""
    text_task = load_task(recipe)  # before the model is read: a wrong name is found at once
    config = recipe.config()
    if config.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()  # an earlier run in this process had its own peak
    with config.main_process_first():
        source = models.local_copy(recipe.model, base)
    tokenizer = models.read_tokenizer(source)
    source = source.at_commit()
    config.model_init_kwargs = (config.model_init_kwargs or {}) | source.options
    text_task = _for_tokenizer(tokenizer, text_task)
    scoring = text_task.scoring(recipe.timeout, recipe.scorers, recipe.sandbox)
    scoring.check()
    trainer = TargetPolicyTrainer(
        source.name,
        scoring,
        config,
        train_dataset=text_task.train,
        processing_class=tokenizer,
        peft_config=_lora_config(recipe.lora),
    )
    return TrainingSetup(trainer, source, text_task, scoring)


def load_task(recipe: Recipe) -> TextTask:
    """The recipe's task."""
    return task(recipe.task, **recipe.of_task)


def _for_tokenizer(tokenizer: Any, text_task: TextTask) -> TextTask:
    """The task; with its conversations as plain text, if the tokenizer has no chat template."""
    if getattr(tokenizer, "chat_template", None):
        return text_task
    train, held_out = (
        _plain_prompts(part, tokenizer) for part in (text_task.train, text_task.held_out)
    )
    return replace(text_task, train=train, held_out=held_out)


def _plain_prompts(part: Any, tokenizer: Any) -> Any:
    from datasets import Dataset

    columns = {name: list(part[name]) for name in part.column_names}
    columns["prompt"] = [templated(tokenizer, prompt) for prompt in columns["prompt"]]
    return Dataset.from_dict(columns)


def _lora_config(rank: int) -> Any:
    """Adapters on all linear layers; None for rank 0, which trains all weights."""
    if not rank:
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM"
    )


def _finish(recipe: Recipe, setup: TrainingSetup, seconds: float) -> dict[str, Any]:
    """Write the model with its card, and result.json."""
    out, trainer = Path(recipe.out), setup.trainer
    steps, micro = trainer.state.global_step, trainer.micro_batch
    result = {
        "steps": steps,
        "micro_batch": micro.rows if micro else trainer.args.per_device_train_batch_size,
        **run_costs(read_lines(out / "log.jsonl"), trainer.args, steps),
        "evaluations": read_lines(out / "evaluations.jsonl"),
        "skipped_steps": trainer.skip_steps.nonfinite,
        "skips": trainer.skip_steps.reports,
        "zero_gradient_steps": trainer.skip_steps.zero_gradient,
        "reward_failures": trainer.counts.failures_by_kind,
        "seconds": seconds,
        "provenance": {**provenance(trainer), "revisions": setup.revisions},
    }
    if not recipe.discard_model:
        _save_model(trainer, out / "model", card_text(recipe, result))
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
    """The commit, versions, device and date of the run."""
    device = trainer.accelerator.device
    packages = ("numpy", "torch", "transformers", "trl", "peft", "accelerate", "datasets", "vllm")
    return {
        "commit": commit(),
        "versions": {"tpo": __version__, **versions(packages)},
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "processes": trainer.accelerator.num_processes,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }
