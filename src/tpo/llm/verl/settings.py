"""Settings: the section `trainer.v1.tpo` of verl's config, and what the rest of the config must be to fit it.

Everything is checked before a worker starts.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from tpo.checks import close_match
from tpo.llm.objective_options import build_objective, check_rollout_log_probs
from tpo.llm.run_options import LogOptions, ObjectiveOptions
from tpo.objectives import Objective
from tpo.options import kinds
from tpo.storage.former_names import current_options

SECTION = "trainer.v1.tpo"
PLUGIN = "tpo.llm.verl.plugin"
MODES = {"tpo": "sync", "tpo_colocate_async": "colocate_async"}
"""The trainer modes of this plug-in, and the modes of verl that each is based on."""

_FORBIDDEN = {
    "algorithm.use_kl_in_reward": "a target is made of the scores alone: "
    "set actor_rollout_ref.actor.use_kl_loss=True and kl_loss_coef for a KL to the reference",
    "algorithm.rollout_correction.bypass_mode": "p_old is the trainer's, not the sampler's",
    "algorithm.rollout_correction.rollout_is": "a weight on single rows or tokens breaks Σ(p - q) = 0",
    "algorithm.rollout_correction.rollout_rs": "it masks tokens after the groups are made",
    "distillation.enabled": "the loss is the objective's",
}
"""Options of verl that cannot be combined with these objectives, and why."""


@dataclass(frozen=True)
class Settings(LogOptions, ObjectiveOptions):
    """The objective, its options, and what is logged and skipped; `tpo.llm.run_options` declares each."""

    def build(self) -> Objective:
        """The objective; an error names a wrong name or option, and what is accepted."""
        options = {**self.objective_options, "score": self.score, "eta": self.eta}
        advice = (
            "set actor_rollout_ref.actor.use_kl_loss=True and kl_loss_coef, which add verl's own KL"
        )
        built = build_objective(self.objective, options, 0.0, advice, greedy=False, critic=True)
        check_rollout_log_probs(built, False, "this plug-in does not read the sampler's")
        _check_given(built)
        return built


_NOT_GIVEN = {
    "task_logits": "the tasks of prompts",
    "eta_final": "how much of training is done",
}
"""Options for which groups need what this plug-in does not pass on."""


def _check_given(built: Objective) -> None:
    """Raise if the objective reads fields of groups that are not filled here."""
    for option, what in _NOT_GIVEN.items():
        value = getattr(built, option, None)
        if value and value != (0.0,):  # one task needs no tasks
            raise ValueError(
                f"{SECTION}.objective_options.{option} needs {what}, which the plug-in on verl does not pass "
                "on: leave it out, or train with TRL"
            )
    if getattr(built, "anchor", None) == "reference" or built.traits.family == "preference":
        raise ValueError(
            f"{type(built).__name__} measures from the reference policy, whose log-probs the plug-in on verl "
            "does not pass on: choose another objective, or train with TRL"
        )


@dataclass(frozen=True)
class Updates:
    """The optimiser steps on one rollout batch."""

    mini_batches: int
    """of whole groups"""
    epochs: int

    @property
    def total(self) -> int:
        """The number of optimiser steps."""
        return self.mini_batches * self.epochs


def read(config: DictConfig) -> Settings:
    """The settings in verl's config; an error names an unknown option, and the valid ones."""
    found = OmegaConf.select(config, SECTION)
    given = {} if found is None else OmegaConf.to_container(found, resolve=True)
    if not isinstance(given, dict):
        raise ValueError(f"{SECTION} is {given!r}, expected option: value lines")
    given = current_options(given)
    if isinstance(given.get("objective_options"), dict):
        given["objective_options"] = current_options(given["objective_options"])
    typed = kinds(Settings)
    for name in given:
        if name not in typed:
            hint = close_match(name, typed)
            raise ValueError(f"{SECTION} has no option {name!r}.{hint} Options: {', '.join(typed)}")
    values = {str(k): typed[str(k)].value(f"{SECTION}.{k}", v) for k, v in given.items()}
    settings = Settings(**values)
    settings.build()
    return settings


def check(config: DictConfig, settings: Settings) -> Updates:
    """The updates on a rollout batch; a config that cannot work is an error that names the fix."""
    if not config.trainer.use_v1:
        raise ValueError(
            "trainer.use_v1 is False, and the old trainer has no modes: set it to True"
        )
    for key, why in _FORBIDDEN.items():
        if OmegaConf.select(config, key):
            value = OmegaConf.select(config, key)
            raise ValueError(f"{key} is {value!r}, which cannot work here: {why}")
    built = settings.build()
    if OmegaConf.select(config, "critic.enable") and not built.uses_values:
        raise ValueError(
            f"critic.enable is True, and objective {settings.objective!r} has no critic: leave it out, or "
            f"choose 'vapo', 'a2c', or 'ppo' with {SECTION}.objective_options.advantage=gae"
        )
    mode = config.actor_rollout_ref.actor.policy_loss.loss_mode
    if mode not in ("vanilla", "tpo"):
        raise ValueError(
            f"actor_rollout_ref.actor.policy_loss.loss_mode is {mode!r}, but the loss is the objective's: "
            f"leave it out, and choose {SECTION}.objective"
        )
    estimator = config.algorithm.adv_estimator
    if estimator not in ("gae", "tpo"):
        logging.getLogger("tpo").warning(
            "algorithm.adv_estimator=%s is not used: advantages are those of objective %r",
            estimator,
            settings.objective,
        )
    n = config.actor_rollout_ref.rollout.n
    if n < 2 and built.traits.group:
        raise ValueError(
            f"actor_rollout_ref.rollout.n is {n}, and objective {settings.objective!r} compares the "
            "candidates of a group: set it to 2 or more, such as 16"
        )
    return _updates(config, built)


def _updates(config: DictConfig, built: Objective) -> Updates:
    """The updates; an error if they would split what the objective compares, or differ in size."""
    actor, n = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout.n
    prompts, size = config.data.train_batch_size, actor.ppo_mini_batch_size
    if size > prompts or prompts % size:
        fits = [m for m in range(min(size, prompts), 0, -1) if prompts % m == 0]
        raise ValueError(
            f"actor_rollout_ref.actor.ppo_mini_batch_size is {size} and data.train_batch_size {prompts} "
            f"prompts: an update needs whole groups and all updates the same number. Set it to {fits[0]}, "
            f"or to {prompts} for one update per rollout batch"
        )
    ranks = config.trainer.n_gpus_per_node * config.trainer.nnodes
    ranks //= int(actor.get("ulysses_sequence_parallel_size", 1) or 1)
    updates = Updates(prompts // size, int(actor.ppo_epochs))
    if updates.mini_batches > 1 and built.traits.whole_batch:
        raise ValueError(
            f"objective {type(built).__name__} compares the tokens of a whole rollout batch, and "
            f"{updates.mini_batches} mini-batches are updated one after the other: set "
            f"actor_rollout_ref.actor.ppo_mini_batch_size to {prompts}"
        )
    if updates.total > 1 and actor.strategy.startswith("fsdp") and size * n % ranks:
        fits = [m for m in range(prompts, 0, -1) if prompts % m == 0 and m * n % ranks == 0]
        advice = f"set ppo_mini_batch_size={fits[0]}" if fits else f"make n a multiple of {ranks}"
        raise ValueError(
            f"actor_rollout_ref.actor.ppo_mini_batch_size is {size}, so an update has {size} whole groups of "
            f"rollout.n={n}, {size * n} rows, which do not divide over {ranks} data-parallel ranks: {advice}"
        )
    return updates


def add_check(verl_config: Any) -> None:
    """Run `check` before `validate_config`, a function of verl's module `verl.utils.config`, given here.

    verl's command line calls that function in the driver, before Ray starts. The constructors of our trainers
    run later.
    """
    validate = verl_config.validate_config

    def validate_config(config: DictConfig, use_reference_policy: bool, use_critic: bool) -> None:
        if config.trainer.v1.trainer_mode in MODES:
            settings = read(config)
            check(config, settings)
            use_critic = settings.build().uses_values
        validate(config, use_reference_policy, use_critic)

    verl_config.validate_config = validate_config


def configure(config: DictConfig, objective: Objective) -> None:
    """Set the options of verl that this plug-in and the objective need, in verl's config.

    Every worker imports the plug-in with the model, so that a worker without the plug-in fails at start-up.
    """
    with open_dict(config):
        config.trainer.v1.trainer_mode = MODES[config.trainer.v1.trainer_mode]
        config.algorithm.adv_estimator = "tpo"
        config.critic.enable = objective.uses_values
        config.actor_rollout_ref.actor.policy_loss.loss_mode = "tpo"
        config.actor_rollout_ref.actor.ppo_epochs = 1
        model = config.actor_rollout_ref.model
        given = model.get("external_lib") or []
        others = [given] if isinstance(given, str) else list(given)
        model.external_lib = [*(name for name in others if name != PLUGIN), PLUGIN]
