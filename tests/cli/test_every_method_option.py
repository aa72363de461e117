"""Every option of a method, and every key of a file of options, refuses wrong values before JAX or torch is imported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tpo
from support.refusals import problems
from tpo.lab.studies.method_specs import fitting_objectives
from tpo.llm.objective_options import accepted_options
from tpo.llm.runs.recipe import Recipe, kinds
from tpo.objectives import entry
from tpo.options import kinds as kinds_of

WRONG = ["", "x y", "nan", "inf", "1e999", "[1]", "-1.5", "None", "'x'", "{}"]
"""What no option of any objective accepts, as the command line writes it."""

TRAIN = ["train", "--model", "a_model", "--task", "toy:sort"]


def methods(names: list[str]) -> Iterator[tuple[str, str, str]]:
    """An objective, an option, and the method with a wrong value of it."""
    for name in names:
        for option in kinds_of(entry(name).make):
            for value in WRONG:
                yield name, option, f"{name}:{option}={value}"


def test_methods_of_the_lab(place: Path) -> None:
    cases = [
        (["run", "--methods", method], [option])
        for _, option, method in methods(fitting_objectives())
    ]
    for name in fitting_objectives():
        cases.append((["run", "terminal", "--methods", f"{name}:epochs=0"], ["epochs is 0"]))
        cases.append((["run", "terminal", "--methods", f"{name}:optimiser=lion"], ["optimiser is 'lion'"]))  # fmt: skip
        cases.append((["compare", "--methods", f"{name}:no_such=1"], ["no option 'no_such'"]))
        cases.append(
            (["compare", "--methods", f"{name}:eta"], ["holds 'eta', expected option=value"])
        )
        cases.append((["compare", "--methods", f"{name}x"], [f"{name}x", "Expected one of"]))
    assert len(cases) > 1800
    assert not (found := problems(cases, place)), "\n".join(found)


def test_methods_of_a_comparison(place: Path) -> None:
    trainable = [
        name
        for name in tpo.list_objectives()
        if not entry(name).make.traits.critic and not entry(name).make.needs
    ]
    cases = [
        ([*TRAIN, "--compare", f"tpo,{method}"], [option])
        for name, option, method in methods(trainable)
        if option in accepted_options(name)
        and not (method.endswith("=[1]") and option in ("reward_weights", "task_logits"))
    ]
    for name in trainable:
        cases.append(([*TRAIN, "--compare", f"tpo,{name}:no_such=1"], ["no option 'no_such'"]))
        cases.append(([*TRAIN, "--compare", f"tpo,{name}:epochs"], ["epochs", "expected"]))
        cases.append(([*TRAIN, "--compare", f"tpo,{name}:epochs=0"], ["epochs is 0"]))
        cases.append(([*TRAIN, "--compare", f"tpo,{name}:learning_rate=x"], ["learning_rate is 'x'"]))  # fmt: skip
    assert len(cases) > 1800
    assert not (found := problems(cases, place)), "\n".join(found)


PLAIN = {"text": ["[1]", "{a: 1}", "true", "5"], "TABLE": ["[1]", "x", "5", "{1: 2}", "true"]}
NUMBER = ["[1]", "{a: 1}", "x", "", ".nan", ".inf", "-.inf", "1e999", "true", "-1"]
ANY_NUMBER = {"threshold"}
TEXTS = {"model", "task", "objective", "out", "scorer", "hint", "report_to", "score", "extract"}
TABLES = {"objective_options", "task_options", "trl"}
OPTIONAL = {"score", "eta", "micro_batch", "scorer", "hint", "threshold", "scorer_cpu"}
"""An empty value of these is their default."""


def test_keys_of_a_file(place: Path) -> None:
    cases = []
    for number, name in enumerate(kinds(Recipe)):
        values = PLAIN["text"] if name in TEXTS else PLAIN["TABLE"] if name in TABLES else NUMBER
        for i, value in enumerate(values):
            if (value == "" and name in OPTIONAL) or (value == "-1" and name in ANY_NUMBER):
                continue
            if value == "true" and isinstance(Recipe.__dataclass_fields__[name].default, bool):
                continue
            lines = {"model": "a_model", "task": "toy:sort", name: value}
            path = place / f"{number}_{i}.yaml"
            path.write_text("".join(f"{k}: {v}\n" for k, v in lines.items()))
            cases.append((["train", f"--config={path.name}"], [name, "expected"]))
    assert len(cases) > 300
    assert not (found := problems(cases, place)), "\n".join(found)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with what looks like a model."""
    (tmp_path / "a_model").mkdir()
    (tmp_path / "a_model/config.json").write_text('{"model_type": "llama"}')
    return tmp_path
