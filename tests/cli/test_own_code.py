"""`--task FILE.py:CLASS` and `--methods FILE.py:CLASS`: what runs, and what a mistake says."""

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from tpo import user_code
from tpo.cli import main
from tpo.lab.own_tasks import EXPECTED, own_task
from tpo.lab.tasks import Task
from tpo.lab.training import Cell
from tpo.storage.store import Store

TASK = """
    from dataclasses import dataclass
    import jax
    import jax.numpy as jnp
    from tpo.lab.tasks import Contexts

    @dataclass(frozen=True)
    class Parity:
        bits: int = 3
        actions = 2
        length = 1
        dense = True

        @property
        def observes(self):
            return "features", self.bits

        def load(self):
            return ()

        def contexts(self, data, key, batch):
            bits = jax.random.bernoulli(key, 0.5, (batch, self.bits)).astype(jnp.float32)
            return Contexts(bits, bits.sum(-1).astype(int) % 2)

        def rewards(self, answer, actions):
            return (actions == answer[:, None, None]).astype(jnp.float32)

        def held_out(self, data):
            return None
"""
OBJECTIVE = """
    from dataclasses import dataclass
    from typing import ClassVar
    import tpo
    from tpo.objectives.tpo import TPO

    @dataclass(frozen=True)
    class Mine(TPO):
        '''TPO under another name.'''

    class Half(tpo.Objective):
        traits: ClassVar[tpo.Traits] = tpo.Traits("target")

        def _prepare(self, groups):
            return groups
"""
RUN = ["run", "--batch", "16", "--episodes", "12", "--seeds", "1"]


def written(folder, name, text):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def test_an_own_objective_on_an_own_task_learns_as_the_one_that_it_copies(tmp_path, capsys):
    task = written(tmp_path, "parity.py", TASK)
    mine = written(tmp_path, "mine.py", OBJECTIVE)
    methods = f"tpo:eta=0.5,{mine}:Mine:eta=0.5"
    out = str(tmp_path / "out")
    assert main([*RUN, "--task", f"{task}:Parity:bits=2", "--methods", methods, "--out", out]) == 0
    store = Store(out)
    keys = store.keys()
    cells = {key: store.description(key)["cell"] for key in keys}
    assert [cell["task"]["bits"] for cell in cells.values()] == [2, 2]
    first, second = (store.curves(key)["error"] for key in cells)
    np.testing.assert_array_equal(first, second)
    assert len(np.unique(first)) > 1
    for key, cell in cells.items():
        assert Cell.from_json(json.loads(json.dumps(cell))).key == key


def test_an_edited_file_is_another_run(tmp_path):
    keys = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        edited = OBJECTIVE.replace("another name", f"the name {name}")
        code = """if True:
            from tpo.lab.tasks import Bandit
            from tpo.lab.training import Cell, Method
            from tpo.lab.rollouts import Rollout
            print(Cell(Bandit(3), Method("mine.py:Mine", (), Rollout("vector"), 1)).key)"""
        written(tmp_path / name, "mine.py", edited)
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path / name, capture_output=True, text=True, check=True
        )  # fmt: skip
        keys.append(done.stdout)
    assert keys[0] != keys[1]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--task", "none.py:Parity"], "none.py does not exist"),
        (["--task", "parity.py:Partiy"], "parity.py has no class 'Partiy'. Its classes: Parity"),
        (["--task", "parity.py:Contexts"], "class Contexts in parity.py is not a task yet"),
        (["--task", "parity.py"], "a class of yours as FILE.py:CLASS"),
        (["--task", "parity.py:Parity:bit=2"], "expected bits=..."),
        (["--methods", "mine.py:Half"], "is not an objective yet. It misses:\n  _loss(self, xp"),
        (["--methods", "parity.py:Parity"], "traits: what it needs"),
        (["--methods", "mine.py:Mine:temperature=1"], "has no option 'temperature'"),
        (["--task", "broken.py:X"], "broken.py, line 2: "),
        (["--task", "raising.py:X"], "raising.py, line 3, in <module>: NameError: name 'missing'"),
        (["--task", "importing.py:X"], "importing.py imports nowhere, which is not installed"),
    ],
)
def test_a_mistake_names_the_file_and_what_is_missing(
    tmp_path, monkeypatch, capsys, flags, message
):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "parity.py", TASK)
    written(tmp_path, "mine.py", OBJECTIVE)
    written(tmp_path, "broken.py", "\nclass X(:\n")
    written(tmp_path, "raising.py", "\n\n    missing\n    class X(dict): pass\n")
    written(tmp_path, "importing.py", "    import nowhere\n    X = nowhere.X\n")
    assert main([*RUN, *flags]) == 2
    assert message in capsys.readouterr().err


WRONG = {
    "not frozen": ("(frozen=True)", "", "write @dataclass(frozen=True)"),
    "no rewards": ("def rewards", "def reward", "rewards(self, answer, actions): rewards [B, S, T]"),
    "one reward per episode": ("answer[:, None, None]).astype(jnp.float32)",
                               "answer[:, None, None]).astype(jnp.float32)[..., 0]",
                               "Parity.rewards returned shape (3, 2) for actions of shape (3, 2, 1)"),
    "boolean rewards": (".astype(jnp.float32)\n\n        def held", "\n\n        def held",
                        "Parity.rewards returned bool, expected floats"),
    "other inputs": ('return "features", self.bits', 'return "features", self.bits + 1',
                     "returned inputs of shape (3, 3)"),
    "a tuple": ("Contexts(bits, ", "tuple((bits, ", "Parity.contexts returned a tuple"),
    "another observation": ('"features", self.bits', '"pixels", self.bits', "observes is ('pixels', 3)"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_a_task_that_is_none_is_explained_before_anything_runs(kind, tmp_path, capsys):
    old, new, message = WRONG[kind]
    changed = TASK.replace(old, new)
    if kind == "a tuple":
        changed = changed.replace("% 2)\n", "% 2))\n", 1)
    assert changed != TASK
    path = written(tmp_path, "parity.py", changed)
    assert main([*RUN, "--task", f"{path}:Parity", "--methods", "tpo"]) == 2
    assert message in capsys.readouterr().err


def test_an_error_inside_a_users_function_names_its_line(tmp_path, capsys):
    path = written(tmp_path, "parity.py", TASK.replace("(actions == answer", "(actions == anwser"))
    assert main([*RUN, "--task", f"{path}:Parity", "--methods", "tpo"]) == 2
    assert "parity.py, line 26, in rewards: NameError" in capsys.readouterr().err


def test_a_part_may_be_inherited_or_a_field(tmp_path):
    more = TASK + '\n    class Base(Parity):\n        pass\n\n    @dataclass(frozen=True)\n    class Deeper(Base):\n        actions: int = 2\n'  # fmt: skip
    path = written(tmp_path, "deeper.py", more)
    assert own_task(f"{path}:Deeper:actions=4").actions == 4


def test_the_listed_parts_are_those_of_a_task():
    names = {part.partition("(")[0] for part in EXPECTED.parts}
    assert names == {name for name in vars(Task) if not name.startswith("_")}


@pytest.mark.parametrize("flag", ["--task", "--methods"])
def test_a_missing_part_is_named_without_importing_jax(tmp_path, flag):
    written(tmp_path, "mine.py", "import jax\nclass X:\n    actions = 2\n")
    code = (
        f"import sys; from tpo.cli import main; status = main({[*RUN, flag, 'mine.py:X']}); "
        "print(status, 'jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)  # fmt: skip
    assert done.stdout.strip() == "2 False"
    assert "class X in mine.py is not" in done.stderr


def test_options_follow_the_class():
    assert user_code.split_options("a/b.py:C:x=1:y=2") == ["a/b.py:C", "x=1", "y=2"]
    assert user_code.split_options("C:/d/b.py:C") == ["C:/d/b.py:C"]
    assert user_code.split_options("tpo:eta=1") == ["tpo", "eta=1"]


@pytest.mark.parametrize("method", ["tpo", "grpo", "tpo_token"])
def test_a_group_objective_with_one_candidate_is_refused(method, capsys):
    flags = ["--reward", "bag", "--group-size", "1", "--methods", method]
    assert main([*RUN, *flags]) == 2
    assert (
        "compares the candidates of one context, so a group needs at least 2"
        in capsys.readouterr().err
    )


def test_a_comparison_of_language_models_takes_an_own_objective(tmp_path):
    from tpo.llm.comparison.method import method

    mine = written(tmp_path, "mine.py", OBJECTIVE)
    found = method(f"{mine}:Mine:eta=0.5")
    assert (found.objective, dict(found.options)) == (f"{mine}:Mine", {"eta": 0.5})
    assert found.label == "Mine eta=0.5"


STUDY = """
    from tpo.lab.studies import Scale, Study

    settings = {"A": 5, "B": 16, "baseline": 0.5, "step": 0.1}
    ARMS = Study("five-arms", "Five arms", "own", "One arm pays.", "one_context", ("tpo", "dg"),
                 settings, {"quick": Scale(2, 10)}, grid={"B": (8, 16)})
    TAKEN = Study("terminal", "", "", "", "one_context", ("tpo",), settings, {"quick": Scale(2, 10)})
"""


def test_an_own_study_runs_and_its_store_can_be_read_without_the_file(
    tmp_path, monkeypatch, capsys
):
    from tpo.reports import open_results

    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, "arms.py", STUDY)
    words = ["run", "arms.py:ARMS", "--scale", "quick", "--seeds", "1", "--seed-offset", "3"]
    assert main([*words, "--out", "out"]) == 0
    path.unlink()
    assert open_results("out").studies[0]["command"] == " ".join(["tpo", *words])
    rows = open_results("out").table().rows
    assert [(row["B"], row["method"]) for row in rows] == [
        (8, "TPO"), (8, "DG"), (16, "TPO"), (16, "DG"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ARM", "arms.py has no 'ARM'"),
        ("settings", "arms.py:settings is a dict, expected a tpo.lab.studies.Study"),
        ("TAKEN", "arms.py:TAKEN has the name 'terminal' of another study"),
    ],
)
def test_a_wrong_study_of_a_file_is_named(name, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "arms.py", STUDY)
    assert main(["run", f"arms.py:{name}"]) == 2
    assert message in capsys.readouterr().err
