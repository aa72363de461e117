"""Plan: the runs of a comparison, with the same prompts, seeds and number of rollouts for every method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from tpo.llm.comparison.method import MethodSpec, methods
from tpo.llm.comparison.options import ComparisonOptions
from tpo.llm.comparison.sweep import swept
from tpo.llm.comparison.tuning import SEED_OFFSET, Tuning, read_tuning
from tpo.llm.runs.artifacts import JsonFile
from tpo.llm.runs.earlier_runs import recorded_options
from tpo.llm.runs.recipe import Recipe, command_flags, recipe
from tpo.options import declared

DEFAULT_BATCHES = 100
"""Rollout batches, if none are given."""
DEFAULT_EVALUATIONS = 10
"""Evaluations after the first, if `eval_every` is not given; the curves are made of them."""
TRL_BATCH_OPTIONS = (
    "generation_batch_size", "steps_per_generation", "gradient_accumulation_steps", "max_steps",
    "num_generations", "num_iterations", "num_train_epochs", "per_device_train_batch_size",
)  # fmt: skip
"""TRL's options for how many completions are sampled, and how many steps are made on them."""

COMPARISON = JsonFile(
    "comparison.json",
    {
        "plan": dict,
        "plan.methods": list,
        "plan.seeds": int,
        "plan.recipe": dict,
        "plan.tuning": dict,
    },
    "restore it, or remove it: the same command without --resume writes it again, and keeps complete runs",
)


class Run(NamedTuple):
    """One method with one seed; the recipe's `out` is its folder."""

    method: MethodSpec
    recipe: Recipe
    is_tuning: bool = False
    """if so, its method holds the value that it tries"""

    @property
    def folder(self) -> Path:
        """The folder that it is trained in."""
        return Path(self.recipe.out)

    @property
    def title(self) -> str:
        """As messages and reports name it."""
        return f"{'tuning ' if self.is_tuning else ''}{self.method.name}, seed {self.recipe.seed}"


@dataclass(frozen=True)
class Plan:
    """Methods on one shared recipe. Its budget is in rollout batches, and its seed is the first of `seeds`."""

    recipe: Recipe
    methods: tuple[MethodSpec, ...]
    seeds: int = ComparisonOptions.seeds
    tuning: Tuning | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.seeds <= SEED_OFFSET:
            raise ValueError(f"seeds is {self.seeds}, expected 1 to {SEED_OFFSET}")
        if not self.recipe.batches:
            raise ValueError(
                "a comparison needs its budget in rollout batches, so that methods with other "
                f"epochs sample as many completions: give batches, such as {DEFAULT_BATCHES}"
            )
        for name, f in declared(Recipe).items():
            if "as_method" in f.metadata and getattr(self.recipe, name) not in (None, {}):
                raise ValueError(
                    f"{name} is {getattr(self.recipe, name)!r} for a comparison: say it with the method "
                    f"that it is for, such as {f.metadata['as_method']}"
                )
        for name in TRL_BATCH_OPTIONS:
            if name in self.recipe.trl:
                raise ValueError(
                    f"trl holds {name}, and methods of a comparison sample equally many completions: "
                    "leave it out, and set prompts, group_size, micro_batch and batches"
                )

    def check(self) -> None:
        """Raise what is wrong with the task or a method, before the first is trained."""
        from tpo.llm.runs.train import load_task

        load_task(self.recipe)
        for method in self.methods:
            for variant in self.tuning.variants(method) if self.tuning else [method]:
                variant.apply_to(self.recipe).config()

    @property
    def folder(self) -> Path:
        """The folder of the comparison."""
        return Path(self.recipe.out)

    @property
    def reported_seeds(self) -> list[int]:
        """The seeds of the runs that are reported."""
        return [self.recipe.seed + i for i in range(self.seeds)]

    def run(self, method: MethodSpec, seed: int, tuned: MethodSpec | None = None) -> Run:
        """A method with one of the seeds; `tuned` is the method with the value that tuning chose."""
        out = str(_run_folder(self.folder, method, seed))
        recipe = (tuned or method).apply_to(self.recipe)
        return Run(method, replace(recipe, seed=seed, out=out))

    @property
    def tuning_seeds(self) -> list[int]:
        """The seeds of the runs that tune."""
        n = self.tuning.seeds if self.tuning else 0
        return [self.recipe.seed + SEED_OFFSET + i for i in range(n)]

    def tuning_runs(self, variant: MethodSpec) -> list[Run]:
        """A method that holds a value to try, with each tuning seed."""
        assert self.tuning is not None
        recipe = variant.apply_to(self.recipe)
        recipe = replace(recipe, batches=self.tuning.batches or recipe.batches)
        folder = self.folder / "tuning"
        return [
            Run(
                variant,
                replace(recipe, seed=seed, out=str(_run_folder(folder, variant, seed))),
                is_tuning=True,
            )
            for seed in self.tuning_seeds
        ]

    def to_dict(self) -> dict[str, Any]:
        """As comparison.json holds it, without the folder, which may be moved."""
        return {
            "methods": [method.name for method in self.methods],
            "seeds": self.seeds,
            "recipe": {k: v for k, v in self.recipe.to_dict().items() if k != "out"},
            "tuning": self.tuning.to_dict() if self.tuning else {},
        }

    @property
    def command(self) -> str:
        """The command that repeats the comparison, without its folder."""
        methods = ",".join(method.name for method in self.methods)
        command = f"tpo train {command_flags(self.recipe)} --compare {methods}"
        command += f" --seeds {self.seeds}" if self.seeds > 1 else ""
        return f"{command} {self.tuning.flags}" if self.tuning else command


def _run_folder(parent: Path, method: MethodSpec, seed: int) -> Path:
    """The folder of a method's seed; the one that an earlier version made, if it exists."""
    former = parent / f"{method.former_folder}-seed{seed}"
    return former if former.exists() else parent / f"{method.folder}-seed{seed}"


def read_plan(folder: Path) -> Plan:
    """The plan of a comparison's folder; a clear error where it holds none."""
    written = COMPARISON.read(folder)
    if written is None:
        raise ValueError(
            f"{folder} holds no comparison: run tpo train --compare tpo,grpo --out {folder}"
        )
    plan = written["plan"]
    shared = Recipe(**{**recorded_options(plan["recipe"]), "out": str(folder)})
    return Plan(
        shared, methods(plan["methods"], least=1), plan["seeds"], read_tuning(plan["tuning"])
    )


def make_plan(
    comparison: Mapping[str, Any], options: Mapping[str, Any], preset: str | None = None
) -> Plan:
    """A plan from the options of a comparison (`compare`, `seeds`, `tune`, ...) and those of a recipe."""
    if "steps" in options:
        raise ValueError(
            f"steps is {options['steps']}, and a comparison counts rollout batches, on which methods may "
            "make several epochs: give --batches instead"
        )
    shared = recipe({"batches": DEFAULT_BATCHES, **options}, preset=preset)
    if "eval_every" not in options:
        shared = replace(shared, eval_every=max(1, shared.batches // DEFAULT_EVALUATIONS))
    one_is_enough = bool({"tune", "sweep"} & {*comparison}) or comparison.get("seeds", 1) > 1
    compared = methods(comparison["compare"], least=1 if one_is_enough else 2)
    if "sweep" in comparison:
        compared = swept(compared, comparison["sweep"])
    if options.get("objective") not in (None, *(one.objective for one in compared)):
        raise ValueError(
            f"objective is {shared.objective!r} for a comparison: name it among the methods of --compare"
        )
    tuning = read_tuning(comparison)
    for one in compared if tuning else ():
        assert tuning is not None
        tuning.variants(one)  # a value that an option does not accept is named here
    return Plan(shared, compared, comparison.get("seeds", 1), tuning)
