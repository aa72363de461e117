"""Every engine gives the numbers of one process, to the last bit, whoever is killed on the way."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from kill_runs import children, computes, workers
from support import tiny_study as tiny
from tpo.lab import studies
from tpo.lab.execution import Failed, engine
from tpo.lab.execution.jobs import by_key
from tpo.lab.execution.processes import Processes, core_share
from tpo.lab.execution.runner import Job, Request, plan, run_all
from tpo.lab.execution.scheduler import Scheduler
from tpo.lab.execution.worker import Worker
from tpo.lab.policies import Transformer
from tpo.lab.tasks import Sequences
from tpo.lab.training import Budget, Cell, method, run
from tpo.reports.summary import summarise
from tpo.storage.store import Store

ENGINES = {"processes": ["--workers", "2"], "ray": ["--engine", "ray", "--workers", "2"]}
TERMINAL = ["terminal", "--methods", "tpo,grpo,dg"]
SMOKE = ["--scale", "smoke"]


def start(*words, cache):
    environment = dict(os.environ, JAX_PLATFORMS="cpu", JAX_COMPILATION_CACHE_DIR=str(cache))
    environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    return subprocess.Popen(
        [sys.executable, tiny.__file__, "run", *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process):
    out, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    return out, errors


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """Compiled programs, shared with the other tests where those share theirs."""
    return os.environ.get("JAX_COMPILATION_CACHE_DIR") or tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def alone(tmp_path_factory, cache):
    """Both studies as one process runs them."""
    folder = tmp_path_factory.mktemp("alone") / "store"
    for study in (TERMINAL, ["tiny"]):
        finish(start(*study, *SMOKE, "--out", str(folder), cache=cache))
    return folder


def assert_same(found, expected):
    """Both folders hold the same bits, and the first holds no other files."""
    for path in Path(found).glob("*/cell.json"):
        key = path.parent.name
        a, b = Store(found).curves(key), Store(expected).curves(key)
        assert a.keys() == b.keys()
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)
        assert {p.name for p in path.parent.iterdir()} == {"cell.json", "cost.json", "curves.npz"}
        assert path.read_text() == (Path(expected) / key / "cell.json").read_text()


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition, process=None):
    """What the condition gives once it gives something."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.02)
    raise AssertionError("nothing happened in two minutes")


def reached(folder):
    """The last episode of any checkpoint in the folder."""
    store = Store(folder) if (Path(folder) / "store.json").exists() else None
    found = {path.parent for path in Path(folder).rglob("*.npz")}
    saved = [store.checkpoint(path.relative_to(folder).as_posix()) for path in found]
    return max([one.episode for one in saved if one], default=0)


def begun(words, out, cache, after=0):
    """A run of the tiny study that has left a checkpoint later than that."""
    process = start("tiny", *SMOKE, "--out", str(out), "--save-every", "0", *words, cache=cache)
    until(lambda: reached(out) > after, process)
    return process


@pytest.fixture(params=list(ENGINES))
def words(request):
    return ENGINES[request.param]


def test_terminal_has_the_same_bits(words, alone, cache, tmp_path):
    out, _ = finish(start(*TERMINAL, *SMOKE, "--out", str(tmp_path / "s"), *words, cache=cache))
    assert "Terminal reward (Table 3, Fig. 8), scale smoke" in out
    assert len(Store(tmp_path / "s").keys()) == 3
    assert_same(tmp_path / "s", alone)
    (found,) = summarise(tmp_path / "s")
    assert found["progress"] == {"cells_done": 3, "cells": 3}


def test_schedulers_and_workers_may_be_killed(words, alone, cache, tmp_path):
    first = begun(words, tmp_path / "s", cache)
    below = children(first.pid)
    first.kill()
    first.communicate()
    until(lambda: not any(map(computes, below)))  # it takes its workers along
    left = reached(tmp_path / "s")
    assert 0 < left < tiny.EPISODES
    second = begun(words, tmp_path / "s", cache, after=left)  # it goes on from there
    os.kill(workers(second.pid)[0], signal.SIGKILL)
    _, errors = finish(second)
    assert "another takes" in errors
    assert_same(tmp_path / "s", alone)


def test_ctrl_c_saves_leaves_nothing_running_and_says_how_to_resume(words, alone, cache, tmp_path):
    process = begun(words, tmp_path / "s", cache)
    below = children(process.pid)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Run the same command again to resume" in errors
    assert "Traceback" not in errors
    until(lambda: not any(map(alive, below)))
    finish(start("tiny", *SMOKE, "--out", str(tmp_path / "s"), cache=cache))  # in one process
    assert_same(tmp_path / "s", alone)


def test_a_single_seed_has_the_same_bits_in_a_worker(tmp_path):
    """It is data-parallel, and a worker must request the devices before JAX starts."""
    job = Cell(
        Sequences(3), method("tpo", 3, 4), Budget(8, 6), policy=Transformer(2, 3, 3, width=8)
    )
    store = Store(tmp_path / "s")
    with Scheduler(Processes(2), store) as scheduler:
        scheduler.run([Job({"H": 3}, "tpo", "tpo", job)])
    expected = run(job)
    for name, found in store.curves(job.key).items():
        np.testing.assert_array_equal(found, expected[name], err_msg=name)


def test_a_job_that_raises_is_named(tmp_path):
    with (
        pytest.raises(ValueError, match="^wrong H=1: the path is missing$"),
        Scheduler(Processes(2), Store(tmp_path / "s")) as scheduler,
    ):
        scheduler.run([tiny.planned(tiny.Wrong())])


def test_a_job_that_kills_its_workers_is_given_up(tmp_path, capsys):
    with (
        pytest.raises(ChildProcessError, match="3 workers died on deadly H=1 .killed by signal 9"),
        Scheduler(Processes(2), Store(tmp_path / "s")) as scheduler,
    ):
        scheduler.run([tiny.planned(tiny.Deadly())])
    assert capsys.readouterr().err.count("another takes deadly H=1") == 2


def test_an_unexpected_error_comes_with_its_traceback():
    error = Failed("ZeroDivisionError", "division by zero", "Traceback: ...").error("TPO")
    assert isinstance(error, ChildProcessError)
    assert "TPO failed in its worker:\nTraceback: ..." in str(error)


def test_a_first_job_of_the_wrong_kind_of_machine_is_refused():
    worker = Worker()
    with pytest.raises(ValueError, match="a worker computes with .*Let all have the same version"):
        worker.start(tiny.Wrong(), None, {"jax": "0.0"})


def test_a_job_of_two_studies_is_run_once():
    asked = [
        Request(studies.get_study(name), "smoke")
        for name in ("gradient_norm", "informative_groups")
    ]
    planned = [job for request in asked for job in plan(request)]
    found = by_key(planned)
    assert len(found) < len(planned)
    assert sum(map(len, found.values())) == len(planned)


def test_the_longest_job_comes_first_where_several_run(tmp_path):
    planned = plan(Request(studies.get_study("terminal"), "full"))
    many = Scheduler(Processes(2), Store(tmp_path / "s"))._shards(planned)
    assert many[0].cell.task.horizon == 10
    assert many[-1].cell.method.objective == "dg"
    one = Scheduler(engine(), Store(tmp_path / "s"))._shards(planned)
    assert [shard.job for shard in one] == planned


def test_cores_are_shared_out():
    parts = [core_share(range(10, 26), place, 3) for place in range(3)]
    assert sorted(core for part in parts for core in part) == list(range(10, 26))
    assert {len(part) for part in parts} == {5, 6}
    assert [core_share([0, 1], place, 4) for place in range(4)] == [{0}, {1}, {0}, {1}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "spark"}, "--engine is 'spark', expected one of 'local', 'ray'"),
        ({"workers": 0}, "--workers is 0, expected a whole number from 1"),
    ],
)
def test_a_wrong_engine_is_named(options, message):
    with pytest.raises(ValueError) as error:
        engine(**options)
    assert message in str(error.value)


def test_studies_together_are_those_one_after_the_other(tmp_path):
    """Two studies in one list of jobs, told apart by their manifests."""
    asked = [Request(studies.get_study(name), "smoke") for name in ("talk", "tabular_single")]
    ended = []
    run_all(
        asked,
        tmp_path / "s",
        lambda planned, state: ended.append(planned) if state is None else None,
    )
    assert [found["progress"] for found in summarise(tmp_path / "s")] == [
        {"cells_done": 4, "cells": 4},
        {"cells_done": 1, "cells": 1},
    ]
    assert len(ended) == 5
