"""A scoring worker: nothing that the scorer starts, prints or writes reaches another row or outlives the worker."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tpo.llm.rewards.pool import Scoring
from tpo.llm.rewards.sandbox import Sandbox
from tpo.llm.rewards.subprocess_worker import _lower

pytestmark = [
    pytest.mark.filterwarnings("ignore:a completion could not be scored:RuntimeWarning"),
    pytest.mark.filterwarnings(
        "ignore:os.fork.. was called:RuntimeWarning"
    ),  # by JAX, where it is loaded
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]


def test_nothing_that_a_scorer_starts_outlives_its_time_limit(
    scoring: Callable[..., Scoring], tmp_path: Path
) -> None:
    """Not even if a fork of the trainer holds its pipes open."""
    late = scoring(timeout=2.0)
    assert late(["a"], answer=["a"]) == [1.0]
    fork = os.fork()
    if fork == 0:
        time.sleep(600)
    try:
        assert late(["hang", "a"], answer=["a"] * 2) == [None, 1.0]
        assert late.failures.counts == {"hung": 1}
        assert _alive_after(0, _pids(tmp_path, 2)) == []
    finally:
        os.kill(fork, signal.SIGKILL)
        os.waitpid(fork, 0)


TRAINER = """
import os, time
from tpo.llm.rewards.pool import Scoring
scoring = Scoring({"name": "hostile:score"}, timeout=600, workers=1)
scoring(["a"], answer=["a"])
if os.fork() == 0:
    time.sleep(600)
scoring(["hang"], answer=["a"])
"""


def test_a_trainer_that_is_killed_leaves_no_worker(
    scoring: Callable[..., Scoring], tmp_path: Path
) -> None:
    """Not even if a fork of it, such as one that loads data, lives on and holds its pipes open."""
    trainer = subprocess.Popen([sys.executable, "-c", TRAINER])
    started = _pids(tmp_path, 2)
    (fork,) = [pid for pid in _descendants(trainer.pid) if _command(pid) == _command(trainer.pid)]
    workers = [pid for pid in _descendants(trainer.pid) if pid != fork]
    assert {*started} < {*workers}
    trainer.kill()
    trainer.wait()
    try:
        assert _alive_after(20, workers) == []
    finally:
        os.kill(fork, signal.SIGKILL)


def test_a_worker_whose_supervisor_is_killed_ends(scoring: Callable[..., Scoring]) -> None:
    one = scoring()
    assert one(["a"], answer=["a"]) == [1.0]
    supervisor, worker = _supervisor_and_worker()
    os.kill(supervisor, signal.SIGKILL)
    assert _alive_after(20, [worker]) == []
    assert one(["a", "a"], answer=["a"] * 2) == [None, 1.0]
    assert one.failures.first["raised"] == "the scorer ended its process (signal 9)"


def test_a_fork_of_the_trainer_ends_no_worker(scoring: Callable[..., Scoring]) -> None:
    one = scoring()
    assert one(["a"], answer=["a"]) == [1.0]
    before = _supervisor_and_worker()
    fork = os.fork()
    if fork == 0:
        one.close()
        os._exit(0)
    os.waitpid(fork, 0)
    assert one(["a"], answer=["a"]) == [1.0]
    assert _supervisor_and_worker() == before


def test_rows_reach_the_scorer_alone(scoring: Callable[..., Scoring]) -> None:
    """Children and forks read no row; answers that code in the worker writes are not taken for its score."""
    one = scoring()
    acts = ["child", "a", "a", "fork", "a", "a", "forge", "a", "read", "a"]
    assert one(acts, answer=["a"] * 10) == [0, 1, 1, 0, 1, 1, 0, 1, None, 1]
    assert one.failures.first == {"raised": "ValueError: ''"}


def test_a_scorer_that_exits_has_failed_on_one_row(scoring: Callable[..., Scoring]) -> None:
    one = scoring()
    for act, said in {
        "exit": "SystemExit: 3",
        "cancel": "CancelledError",
        "end": "the scorer ended its process (exit status 3)",
    }.items():
        one.failures.first.clear()
        assert one([act, "a"], answer=["a"] * 2) == [None, 1.0]
        assert one.failures.first == {"raised": said}


def test_forks_of_forks_end_quietly(
    scoring: Callable[..., Scoring], capfd: pytest.CaptureFixture[str]
) -> None:
    assert scoring()(["generations", "a"], answer=["a"] * 2) == [0.0, 1.0]
    assert capfd.readouterr().err == ""


CLOSED = """
import os
os.closerange(0, 3)
from tpo.llm.rewards.pool import Scoring
scoring = Scoring({"name": "hostile:score"}, workers=2)
found = scoring(["a", "b", "a"], answer=["a"] * 3)
scoring.close()
open("found", "w").write(f"{found} {scoring.failures.first}")
"""


def test_a_trainer_without_standard_streams_scores_as_any_other(
    scoring: Callable[..., Scoring], tmp_path: Path
) -> None:
    """As a service may start one: sockets and pipes then get the numbers 0, 1 and 2."""
    subprocess.run([sys.executable, "-c", CLOSED], check=True, timeout=120)
    assert (tmp_path / "found").read_text() == "[1.0, 0.0, 1.0] {}"


def test_messages_are_bounded(scoring: Callable[..., Scoring]) -> None:
    one = scoring()
    assert one(["long", "a"], answer=["a"] * 2) == [None, 1.0]
    assert one.failures.first["raised"] == ("Long: " + "x" * 1000)[:1000]
    one.failures.first.clear()
    assert one(["flood", "a"], answer=["a"] * 2) == [None, 1.0]
    assert one.failures.first["raised"] == "the scorer wrote to the channel of its worker"
    one.failures.first.clear()
    assert one(["loud", "a"], answer=["a"] * 2) == [None, 1.0]
    assert one.failures.first["raised"] == r"Loud: two lines, \x1b[31mred"
    one.failures.first.clear()
    assert one(["mute", "a"], answer=["a"] * 2) == [None, 1.0]
    assert one.failures.first["raised"] == "Mute: its text raises Mute"
    one.failures.first.clear()
    assert one(["a"], answer=[b"bytes are no JSON"]) == [None]
    assert "bytes is not JSON serializable" in one.failures.first["raised"]


def test_memory_and_cpu_time_are_limited(scoring: Callable[..., Scoring]) -> None:
    one = scoring(sandbox=Sandbox(scorer_memory=0.5, scorer_cpu=0.2))
    assert one(["memory", "a"], answer=["a"] * 2) == [None, 1.0]
    assert one.failures.first["raised"].endswith("needs more than 0.5 GiB, its scorer_memory")
    one.failures.first.clear()
    assert one(["burn", "a"], answer=["a"] * 2) == [None, 1.0]
    assert one.failures.first["raised"].endswith("more CPU time than scorer_cpu allows")


def test_limits_beyond_what_the_system_counts_are_refused_and_the_largest_work(
    scoring: Callable[..., Scoring],
) -> None:
    for large in (1e10, 1e19, 1e300, float("inf")):
        for name in ("scorer_memory", "scorer_cpu"):
            with pytest.raises(
                ValueError, match=f"{name} is .*, expected a number above 0, at most"
            ):
                Sandbox(**{name: large})
    one = scoring(timeout=1e6, sandbox=Sandbox(scorer_memory=1e6, scorer_cpu=1e6))
    assert one(["a"], answer=["a"]) == [1.0]
    before = resource.getrlimit(resource.RLIMIT_CPU)
    _lower(resource.RLIMIT_CPU, 10**19)
    assert resource.getrlimit(resource.RLIMIT_CPU) == before


def test_a_file_in_the_current_folder_replaces_no_library(
    scoring: Callable[..., Scoring], tmp_path: Path
) -> None:
    for name in ("json", "numpy", "tpo"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the current folder')")
    assert scoring()(["a"], answer=["a"]) == [1.0]


def test_the_signal_that_ended_a_worker_is_named(scoring: Callable[..., Scoring]) -> None:
    one = scoring()
    assert one(["a"], answer=["a"]) == [1.0]
    os.kill(_supervisor_and_worker()[1], signal.SIGSEGV)
    assert one(["a", "a"], answer=["a"] * 2) == [None, 1.0]
    assert one.failures.first["raised"] == "the scorer ended its process (signal 11)"


def _pids(folder: Path, count: int) -> list[int]:
    """The processes that the scorer started, when there are so many."""
    path, deadline = folder / "pids", time.monotonic() + 60
    while not (path.exists() and path.read_text().count("\n") == count):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return [*map(int, path.read_text().split())]


def _descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task").glob("*/children")
    own = [int(word) for file in children for word in file.read_text().split()]
    return own + [further for child in own for further in _descendants(child)]


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _alive_after(seconds: float, pids: list[int]) -> list[int]:
    """Those that still live when the time is up, or none as soon as none does."""
    deadline = time.monotonic() + seconds
    while any(map(_is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [pid for pid in pids if _is_alive(pid)]


def _supervisor_and_worker() -> tuple[int, int]:
    """The processes of the only worker that this process has started."""
    (supervisor,) = [pid for pid in _descendants(os.getpid()) if "supervisor.py" in _command(pid)]
    (worker,) = _descendants(supervisor)
    return supervisor, worker


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()
