"""A command whose libraries are missing names the command that installs them."""

import subprocess
import sys

import pytest

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


@pytest.mark.parametrize(
    ("command", "hidden", "extra"),
    [
        (["demo"], LAB, "lab"),
        (["studies"], LAB, "lab"),
        (["run", "talk"], LAB, "lab"),
        (["run", "--methods", "tpo"], LAB, "lab"),
        (["compare"], LAB, "lab"),
        (["run", "talk", "--engine", "ray"], ("ray",), "ray"),
        (["verl", "gsm8k"], LLM, "verl"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_the_extra_is_named(
    command: list[str], hidden: tuple[str, ...], extra: str, tmp_path
) -> None:
    code = HIDE.format(hidden=hidden, command=command)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2, done.stderr
    assert f"pip install 'tpo[{extra}]'" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
