"""A command whose libraries are missing names the command that installs them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tpo.cli import main

HIDE = """
import sys
HIDDEN = {hidden!r}
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hide())
from tpo.cli import main
sys.exit(main({command!r}))
"""
LAB = ("jax", "jaxlib", "optax", "rich", "scipy", "sklearn")
LLM = ("torch", "transformers", "trl", "peft", "datasets", "accelerate", "reasoning_gym")


def run(command: list[str], hidden: tuple[str, ...], cwd: Path) -> subprocess.CompletedProcess[str]:
    code = HIDE.format(hidden=hidden, command=command)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=cwd
    )


@pytest.mark.parametrize(
    ("command", "hidden", "extra"),
    [
        (["demo"], LAB, "lab"),
        (["demo", "--llm"], LLM, "llm"),
        (["studies"], LAB, "lab"),
        (["run", "talk"], LAB, "lab"),
        (["run", "--methods", "tpo"], LAB, "lab"),
        (["compare"], LAB, "lab"),
        (["run", "talk", "--engine", "ray"], ("ray",), "ray"),
        (["train", "--model", "any", "--task", "toy:sort"], LLM, "llm"),
        (["train", "--config", "options.yaml"], ("yaml",), "llm"),
        (["verl", "gsm8k"], LLM, "verl"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_the_extra_is_named(
    command: list[str], hidden: tuple[str, ...], extra: str, tmp_path: Path
) -> None:
    (tmp_path / "any").mkdir()
    (tmp_path / "any/config.json").write_text("{}")
    (tmp_path / "options.yaml").write_text("model: any\n")
    done = run(command, hidden, tmp_path)
    assert done.returncode == 2, done.stderr
    assert f"pip install 'tpo[{extra}]'" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("suite", "extras"),
    [("objectives", ("lab", "llm")), ("lab", ("lab",)), ("llm", ("llm",)), ("verl", ("verl",))],
)
def test_a_benchmark_without_its_libraries_names_the_extra(
    suite: str, extras: tuple[str, ...], tmp_path: Path
) -> None:
    done = run(["bench", suite], LAB + LLM, tmp_path)
    assert done.returncode == 1, done.stderr
    for extra in extras:
        assert f"'tpo[{extra}]'" in done.stderr, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_suite_without_rows_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tpo.benchmarks.llm.find_spec", lambda name: None)
    assert main(["bench", "llm"]) == 1
    assert "pip install 'tpo[llm]'" in capsys.readouterr().err


def test_a_report_needs_numpy_alone(tmp_path: Path) -> None:
    done = run(["report", "--playground"], LAB + LLM, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "playground.html").is_file()
