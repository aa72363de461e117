"""The package as a user meets it: imports, command line, examples, documentation."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tpo
from tpo.cli import COMMANDS, main

ROOT = Path(__file__).parent.parent


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_import_loads_no_heavy_library() -> None:
    heavy = ("jax", "torch", "trl", "verl", "matplotlib", "optax", "scipy", "rich", "sklearn")
    loaded = python(f"import sys, tpo; print([m for m in {heavy!r} if m in sys.modules])")
    assert loaded == "[]"


def test_numpy_alone_is_enough() -> None:
    """With every other library hidden, a target, an update and the command line still work."""
    code = """
import sys
for name in ("jax", "torch", "rich", "optax", "scipy", "matplotlib"):
    sys.modules[name] = None
import numpy as np, tpo
from tpo.cli import parser
parser()
q = tpo.target(np.zeros(4), tpo.standardize(np.array([0.0, 1.0, 1.0, 0.0])))
objective = tpo.objective("grpo")
group = tpo.Groups(log_probs_old=np.zeros((1, 2, 1)), scores=np.array([[0.0, 1.0]]))
c = objective.coefficients(group.log_probs_old, objective.prepare(group))
print(round(float(q[1]), 6), c.ravel().tolist())
"""
    assert python(code) == "0.440399 [0.5, -0.5]"


def test_no_machine_or_private_traces() -> None:
    """No pickle in the library: results are plain files."""
    for path in (ROOT / "src").rglob("*.py"):
        assert "import pickle" not in path.read_text(), path


LEARNT = {"scored_answers": "100% after"}
"""What an example prints when the model has learnt."""


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_examples_run(path: Path, tmp_path: Path) -> None:
    short = {  # two steps instead of two minutes
        "small_model": ["small", "--steps", "2"],
        "sequence_scores": ["--seeds", "1", "--steps", "2", "--epochs", "1"],
    }
    command = [sys.executable, str(path), *short.get(path.stem, [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "an example shows something"
    assert LEARNT.get(path.stem, "") in done.stdout


def test_the_quickstart_learns() -> None:
    path = ROOT / "examples/quickstart.py"
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    match = re.fullmatch(r"KL\(q‖p\) after 20 epochs: ([\d.]+)", done.stdout.strip())
    assert match
    assert float(match[1]) < 0.1


def test_own_objective_is_twenty_lines_and_right() -> None:
    code = (ROOT / "examples/own_objective.py").read_text()
    body = code[code.index("@dataclass") : code.index("if __name__")]
    assert len([line for line in body.splitlines() if line.strip()]) <= 20
    # K = 3, p uniform, q = (.0139628, .9720744, .0139628) at eta 1/2: dL/dp = p - q = (.3193705, -.6387411, ...),
    # through the softmax: p_i(g_i - Σ p g) = g_i/3.
    shown = python(
        f"import runpy; runpy.run_path({str(ROOT / 'examples/own_objective.py')!r}, run_name='__main__')"
    )
    assert "0.1065, -0.2129,  0.1065" in shown


def test_documentation_covers_every_public_name() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        pytest.importorskip("sphinx")
        import _objectives
    finally:
        sys.path.pop(0)
    assert _objectives.undocumented() == []
    assert set(_objectives.REQUIRED) >= {".. math::", "Source:", "Deviates:"}


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "numpy: computes a target" in out
    assert f"tpo {tpo.__version__}" in out


def test_bench_as_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from tpo.benchmarks import timing

    monkeypatch.setattr(timing.compared, "__defaults__", (2, 3))  # two rounds of three calls
    assert main(["bench", "objectives", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    names = {row["name"] for row in report["rows"]}
    assert {"torch eager: tpo", "torch eager: grpo", "jax jit: lpo"} <= names
    assert report["provenance"]["versions"]["numpy"]
    assert all(row["ratio"] > 0 for row in report["rows"])


def test_the_command_line_is_a_module_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tpo", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"tpo {tpo.__version__}\n"


def test_command_line_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "everything"]) == 2
    assert "suite is 'everything', expected one of 'objectives'" in capsys.readouterr().err
    assert main(["dmeo"]) == 2
    assert "COMMAND is 'dmeo'. Did you mean 'demo'?" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0


def test_control_c_is_quiet(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tpo.cli import doctor

    def interrupted(package: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "installed", interrupted)
    assert main(["doctor"]) == 130
    assert "stopped" in capsys.readouterr().err


def test_tpo_alone_lists_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 0
    listed = capsys.readouterr().out
    assert all(f"\n    {module.__name__.rpartition('.')[2]} " in listed for module in COMMANDS)
