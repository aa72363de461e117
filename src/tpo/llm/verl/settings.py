"""Settings: what `trainer.v1.tpo` says in verl's config, and what the rest of it must say for that to hold.

Everything is checked before a worker starts.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from tpo.checks import close_match
from tpo.llm.objective_options import build_objective
from tpo.llm.runs.recipe import typed_value
from tpo.objectives import Objective
from tpo.storage.former_names import current_options

SECTION = "trainer.v1.tpo"
PLUGIN = "tpo.llm.verl.plugin"
MODES = {"tpo": "sync", "tpo_colocate_async": "colocate_async"}
"""Trainer modes of this plug-in, and those of verl's that they stand on."""

_FORBIDDEN = {
    "critic.enable": "no objective that is offered here has a critic",
    "algorithm.use_kl_in_reward": "a target is made of the scores as they are: "
    "set actor_rollout_ref.actor.use_kl_loss=True and kl_loss_coef for a KL to the reference",
    "algorithm.rollout_correction.bypass_mode": "p_old is the trainer's, not the sampler's",
    "algorithm.rollout_correction.rollout_is": "a weight on single rows or tokens breaks Σ(p - q) = 0",
    "algorithm.rollout_correction.rollout_rs": "it silences tokens after the groups are made",
    "distillation.enabled": "the loss is the objective's",
}
"""Options that cannot work with objectives over whole groups, and why."""


@dataclass(frozen=True)
class Settings:
    """Which objective is trained, and how a rollout batch is updated on."""

    objective: str = "tpo"
    objective_options: Mapping[str, Any] = field(default_factory=dict)
    score: str | None = None
    """of TPO: sum, mean, ratio or mean_ratio; None for ratio"""
    eta: float | None = None
    success: float = 0.5
    """a score above this counts as solved in the logs"""
    patience: int = 10
    """rollout batches without a signal before a warning"""
    skip_zero_gradient: bool = True
    """make no update where no advantage differs from 0; else Adam's momentum moves the policy there"""

    def build(self) -> Objective:
        """The objective; a wrong name or option names itself and what is accepted."""
        options = {**self.objective_options, "score": self.score, "eta": self.eta}
        advice = (
            "set actor_rollout_ref.actor.use_kl_loss=True and kl_loss_coef, which add verl's own KL"
        )
        return build_objective(self.objective, options, 0.0, advice)


@dataclass(frozen=True)
class Updates:
    """How many optimiser steps are made on one rollout batch."""

    parts: int
    """mini-batches of whole groups"""
    epochs: int

    @property
    def total(self) -> int:
        """Optimiser steps."""
        return self.parts * self.epochs


def read(config: DictConfig) -> Settings:
    """The settings in verl's config; an unknown one is named with its valid choices."""
    found = OmegaConf.select(config, SECTION)
    given = {} if found is None else OmegaConf.to_container(found, resolve=True)
    if not isinstance(given, dict):
        raise ValueError(f"{SECTION} is {given!r}, expected option: value lines")
    given = current_options(given)
    names = [f.name for f in fields(Settings)]
    for name in given:
        if name not in names:
            hint = close_match(name, names)
            raise ValueError(f"{SECTION} has no option {name!r}.{hint} Options: {', '.join(names)}")
    settings = Settings(**{str(k): v for k, v in given.items()})
    typed_value("bool", f"{SECTION}.skip_zero_gradient", settings.skip_zero_gradient)
    settings.build()
    return settings


def check(config: DictConfig, settings: Settings) -> Updates:
    """Reject what cannot work, with the fix; otherwise how a rollout batch is cut into updates."""
    if not config.trainer.use_v1:
        raise ValueError(
            "trainer.use_v1 is False, and the old trainer has no modes: set it to True"
        )
    for key, why in _FORBIDDEN.items():
        if OmegaConf.select(config, key):
            value = OmegaConf.select(config, key)
            raise ValueError(f"{key} is {value!r}, which cannot work here: {why}")
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
    if n < 2 and settings.build().traits.group:
        raise ValueError(
            f"actor_rollout_ref.rollout.n is {n}, and objective {settings.objective!r} compares the "
            "candidates of a group: set it to 2 or more, such as 16"
        )
    return _updates(config)


def _updates(config: DictConfig) -> Updates:
    actor, n = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout.n
    prompts, part = config.data.train_batch_size, actor.ppo_mini_batch_size
    if part > prompts or prompts % part:
        fits = [m for m in range(min(part, prompts), 0, -1) if prompts % m == 0]
        raise ValueError(
            f"actor_rollout_ref.actor.ppo_mini_batch_size is {part} and data.train_batch_size {prompts} "
            f"prompts: an update needs whole groups and all updates the same number. Set it to {fits[0]}, "
            f"or to {prompts} for one update per rollout batch"
        )
    ranks = config.trainer.n_gpus_per_node * config.trainer.nnodes
    ranks //= int(actor.get("ulysses_sequence_parallel_size", 1) or 1)
    updates = Updates(prompts // part, int(actor.ppo_epochs))
    if updates.total > 1 and actor.strategy.startswith("fsdp") and part * n % ranks:
        fits = [m for m in range(prompts, 0, -1) if prompts % m == 0 and m * n % ranks == 0]
        advice = f"set ppo_mini_batch_size={fits[0]}" if fits else f"make n a multiple of {ranks}"
        raise ValueError(
            f"actor_rollout_ref.actor.ppo_mini_batch_size is {part}, so an update has {part} whole groups of "
            f"rollout.n={n}, {part * n} rows, which do not divide over {ranks} data-parallel ranks: {advice}"
        )
    return updates


def guard(verl_config: Any) -> None:
    """Put `check` in front of `validate_config` in verl's module of that name.

    verl's command line calls it in the driver, before Ray starts; our trainers' constructors run later.
    """
    validate = verl_config.validate_config

    def validate_config(config: DictConfig, use_reference_policy: bool, use_critic: bool) -> None:
        ours = config.trainer.v1.trainer_mode in MODES
        if ours:
            check(config, read(config))
        validate(config, use_reference_policy, use_critic and not ours)

    verl_config.validate_config = validate_config


def adopt(config: DictConfig) -> None:
    """Write into verl's config what follows from training with this plug-in.

    Every worker imports the plug-in with the model, so that one without it ends at start-up.
    """
    with open_dict(config):
        config.trainer.v1.trainer_mode = MODES[config.trainer.v1.trainer_mode]
        config.algorithm.adv_estimator = "tpo"
        config.critic.enable = False
        config.actor_rollout_ref.actor.policy_loss.loss_mode = "tpo"
        config.actor_rollout_ref.actor.ppo_epochs = 1
        model = config.actor_rollout_ref.model
        given = model.get("external_lib") or []
        others = [given] if isinstance(given, str) else list(given)
        model.external_lib = [*(name for name in others if name != PLUGIN), PLUGIN]
