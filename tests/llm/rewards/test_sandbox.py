"""Isolation of a scorer by bubblewrap: what it cannot reach, and what is said where it does not work."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tpo.llm.rewards.pool import Scoring
from tpo.llm.rewards.sandbox import Sandbox, bwrap_problem

GYM = {"name": "chain_sum", "dataset": "chain_sum"}
OWN = {"name": "module:score"}

PROBING = """
import glob, os, socket

def write(path):
    with open(path, "w") as file:
        file.write("written")

ACTS = {
    "write": write,
    "read": lambda path: open(path).close(),
    "connect": lambda port: socket.create_connection(("127.0.0.1", int(port)), timeout=5),
    "signal": lambda pid: os.kill(int(pid), 0),
    "run": lambda answer: os.listdir("/run")[0],
}

def score(completion, answer):
    try:
        ACTS[completion](answer)
    except (OSError, IndexError):
        return 0
    return 1
"""


@pytest.fixture
def fresh_probe() -> Iterator[None]:
    bwrap_problem.cache_clear()
    yield
    bwrap_problem.cache_clear()


def test_an_isolated_scorer_reaches_no_network_file_or_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = bwrap_problem()
    if problem:
        pytest.skip(problem)
    (tmp_path / "probing.py").write_text(PROBING)
    monkeypatch.chdir(tmp_path)
    here, lost = Path(__file__).resolve(), Path(f"/tmp/written-by-{os.getpid()}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port, pid = str(server.getsockname()[1]), str(os.getpid())
        asked = [("connect", port), ("signal", pid), ("read", str(here)), ("write", "new")]
        kept = _scores("none", asked)
        (tmp_path / "new").unlink()
        private = [
            ("write", str(here.with_name("written"))),
            ("write", "/tmp/written"),
            ("run", ""),
        ]
        isolated = _scores("bwrap", asked + private)
    assert kept == [1, 1, 1, 1]
    assert isolated == [0, 0, 1, 0, 0, 1, 0]
    assert not (tmp_path / "new").exists()
    assert not lost.exists()


def _scores(isolate: str, asked: list[tuple[str, str]]) -> list[float | None]:
    scoring = Scoring({"name": "probing:score"}, workers=1, sandbox=Sandbox(isolate=isolate))
    try:
        return scoring([act for act, _ in asked], answer=[given for _, given in asked])
    finally:
        scoring.close()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (None, "the command bwrap was not found"),
        ("echo 'No permissions to create new namespace' >&2; exit 1", "No permissions to create"),
    ],
)
@pytest.mark.usefixtures("fresh_probe")
def test_isolation_that_does_not_work_is_refused_if_demanded(
    script: str | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script:
        (tmp_path / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=rf"isolate is 'bwrap', and .*{words}.*apt install"):
        Scoring(OWN, sandbox=Sandbox(isolate="bwrap"))
    assert not Sandbox().isolates(GYM)


@pytest.mark.usefixtures("fresh_probe")
def test_auto_isolates_the_rules_of_datasets_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function of your own may need the network or a GPU; the scorers of tpo compare text."""
    (tmp_path / "bwrap").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    scorers = (GYM, OWN, {"name": "exact"})
    isolated = {
        isolate: [Sandbox(isolate=isolate).isolates(scorer) for scorer in scorers]
        for isolate in ("auto", "bwrap", "none")
    }
    assert isolated == {
        "auto": [True, False, False], "bwrap": [True] * 3, "none": [False] * 3
    }  # fmt: skip


def test_options_out_of_range_are_named() -> None:
    with pytest.raises(ValueError, match="isolate is 'docker', expected one of 'auto', 'bwrap', "):
        Sandbox(isolate="docker")
    with pytest.raises(
        ValueError, match="scorer_memory is 0, expected a number above 0, at most 1e6"
    ):
        Sandbox(scorer_memory=0)
    with pytest.raises(
        ValueError, match="scorer_cpu is nan, expected a number above 0, at most 1e6"
    ):
        Sandbox(scorer_cpu=float("nan"))
