"""Plan: what a comparison trains. The same prompts, seeds and number of rollouts for every method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from tpo.llm.comparison.method import Method, methods
from tpo.llm.comparison.tuning import FIRST_SEED, Tuning, tuning
from tpo.llm.runs.earlier_runs import recorded
from tpo.llm.runs.recipe import Recipe, flags, recipe
from tpo.storage.files import read_json

BATCHES = 100
"""Rollout batches of a comparison that names no number."""
EVALUATIONS = 10
"""How often a comparison that does not say is evaluated after its start: its curves are made of them."""
OF_A_METHOD = {
    "score": "tpo:score=mean",
    "eta": "tpo:eta=0.5",
    "objective_options": "grpo:clip=0.1",
}
"""Options of the recipe that a comparison takes from its methods alone."""
ROLLOUT_BATCH = (
    "generation_batch_size", "steps_per_generation", "gradient_accumulation_steps", "max_steps",
    "num_generations", "num_iterations", "num_train_epochs", "per_device_train_batch_size",
)  # fmt: skip
"""Options of TRL's that decide how many completions are sampled, and for how many steps they serve."""


class Run(NamedTuple):
    """One method with one seed; the recipe's `out` is its folder."""

    method: Method
    recipe: Recipe
    trial: bool = False
    """whether it is tuning, and its method holds the value that it tries"""

    @property
    def folder(self) -> Path:
        """Where it is."""
        return Path(self.recipe.out)

    @property
    def title(self) -> str:
        """For readers."""
        return f"{'tuning ' if self.trial else ''}{self.method.name}, seed {self.recipe.seed}"


@dataclass(frozen=True)
class Plan:
    """Methods on one recipe, whose budget is in rollout batches and whose seed is the first of `seeds`."""

    recipe: Recipe
    methods: tuple[Method, ...]
    seeds: int = 1
    tuning: Tuning | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.seeds <= FIRST_SEED:
            raise ValueError(f"seeds is {self.seeds}, expected 1 to {FIRST_SEED}")
        if not self.recipe.batches:
            raise ValueError(
                "a comparison needs its budget in rollout batches, so that methods with other "
                f"epochs sample as many completions: give batches, such as {BATCHES}"
            )
        for name, example in OF_A_METHOD.items():
            if getattr(self.recipe, name) not in (None, {}):
                raise ValueError(
                    f"{name} is {getattr(self.recipe, name)!r} for a comparison: say it with the method "
                    f"that it is for, such as {example}"
                )
        for name in ROLLOUT_BATCH:
            if name in self.recipe.trl:
                raise ValueError(
                    f"trl holds {name}, and methods of a comparison sample equally many completions: "
                    "leave it out, and set prompts, group_size, micro_batch and batches"
                )

    def check(self) -> None:
        """Let the task and every method name their mistakes, before the first is trained."""
        from tpo.llm.runs.train import task_of

        task_of(self.recipe)
        for method in self.methods:
            for one in self.tuning.tried(method) if self.tuning else [method]:
                one.applied(self.recipe).config()

    @property
    def folder(self) -> Path:
        """Where the comparison is."""
        return Path(self.recipe.out)

    @property
    def reported(self) -> list[int]:
        """The seeds."""
        return [self.recipe.seed + i for i in range(self.seeds)]

    def run(self, method: Method, seed: int, settled: Method | None = None) -> Run:
        """A method with one of the seeds; `settled` is the method with the value that tuning found."""
        out = str(_folder(self.folder, method, seed))
        own = (settled or method).applied(self.recipe)
        return Run(method, replace(own, seed=seed, out=out))

    @property
    def trial_seeds(self) -> list[int]:
        """The seeds of tuning."""
        n = self.tuning.seeds if self.tuning else 0
        return [self.recipe.seed + FIRST_SEED + i for i in range(n)]

    def trials(self, tried: Method) -> list[Run]:
        """A method that holds a value to try, with each seed of tuning."""
        assert self.tuning is not None
        own = tried.applied(self.recipe)
        own = replace(own, batches=self.tuning.batches or own.batches)
        place = self.folder / "tuning"
        return [
            Run(tried, replace(own, seed=seed, out=str(_folder(place, tried, seed))), True)
            for seed in self.trial_seeds
        ]

    def plain(self) -> dict[str, Any]:
        """As comparison.json holds it; the folder is wherever that is."""
        return {
            "methods": [method.name for method in self.methods],
            "seeds": self.seeds,
            "recipe": {k: v for k, v in self.recipe.plain().items() if k != "out"},
            "tuning": self.tuning.plain() if self.tuning else {},
        }

    @property
    def command(self) -> str:
        """What makes the comparison again, its folder aside."""
        words = f"tpo train {flags(self.recipe)} --compare {','.join(m.name for m in self.methods)}"
        words += f" --seeds {self.seeds}" if self.seeds > 1 else ""
        return f"{words} {self.tuning.flags}" if self.tuning else words


def _folder(place: Path, method: Method, seed: int) -> Path:
    """The folder of a method's seed; that of an earlier version if it is there."""
    former = place / f"{method.former_folder}-seed{seed}"
    return former if former.exists() else place / f"{method.folder}-seed{seed}"


def read(folder: Path) -> Plan:
    """The plan of a folder; a clear error where it holds none."""
    noted = read_json(folder / "comparison.json")
    if noted is None:
        raise ValueError(
            f"{folder} holds no comparison: run tpo train --compare tpo,grpo --out {folder}"
        )
    found = noted["plan"]
    own = Recipe(**{**recorded(found["recipe"]), "out": str(folder)})
    return Plan(own, methods(found["methods"], least=1), found["seeds"], tuning(found["tuning"]))


def planned(
    compare: Mapping[str, Any], options: Mapping[str, Any], preset: str | None = None
) -> Plan:
    """A plan from what a comparison takes (`compare`, `seeds`, `tune`, ...) and options of a recipe."""
    if "steps" in options:
        raise ValueError(
            f"steps is {options['steps']}, and a comparison counts rollout batches, which methods may "
            "pass over several times: give --batches instead"
        )
    own = recipe({"batches": BATCHES, **options}, preset=preset)
    if "eval_every" not in options:
        own = replace(own, eval_every=max(1, own.batches // EVALUATIONS))
    alone = "tune" in compare or compare.get("seeds", 1) > 1
    compared = methods(compare["compare"], least=1 if alone else 2)
    if options.get("objective") not in (None, *(one.objective for one in compared)):
        raise ValueError(
            f"objective is {own.objective!r} for a comparison: name it among the methods of --compare"
        )
    return Plan(own, compared, compare.get("seeds", 1), tuning(compare))
