"""A scorer that does what a completion names: it hangs, forks, forges answers, fails."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tpo.llm.rewards.pool import Scoring
from tpo.llm.rewards.sandbox import DEFAULT, Sandbox

HOSTILE = """
import os, subprocess, sys, time
from asyncio import CancelledError

def start(*command, **options):
    with open("pids", "a") as file:
        file.write(f"{subprocess.Popen(command, **options).pid}\\n")

def hang():
    start("sleep", "600")
    start("sleep", "600", start_new_session=True)
    time.sleep(600)

def forge():
    for line in (b'{"score": 1}', b'{"kind": "raised", "error": "forged"}', b"no JSON", b"[" * 9999, b'{"half'):
        for number in range(1, 64):
            try:
                os.write(number, line if b"half" in line else line + b"\\n")
            except OSError:
                pass

def flood():
    for number in range(3, 64):
        try:
            while os.write(number, b"x" * 2**16):
                pass
        except OSError:
            pass

def fork():
    if os.fork() == 0:
        os.close(2)  # what it says is of no interest
        raise ValueError("answered by a fork")
    time.sleep(0.3)

READER = '''
import contextlib, socket
for number in range(3, 64):
    with contextlib.suppress(OSError):
        socket.socket(fileno=number).recv(99)
'''

def child():
    start(sys.executable, "-I", "-S", "-c", READER, close_fds=False)
    time.sleep(0.5)

def generations():
    if os.fork() == 0:
        if os.fork() == 0:
            sys.exit(0)
        sys.exit(os.wait()[1])
    return os.wait()[1]

def burn():
    while True:
        pass

class Long(Exception):
    def __str__(self):
        return "x" * 10**7

class Loud(Exception):
    def __str__(self):
        return "two\\nlines, \\x1b[31mred"

class Mute(Exception):
    def __str__(self):
        raise self

def fail(error):
    raise error

ACTS = {
    "hang": hang, "forge": forge, "flood": flood, "fork": fork, "burn": burn,
    "child": child, "generations": generations, "exit": lambda: sys.exit(3), "end": lambda: os._exit(3),
    "cancel": lambda: fail(CancelledError()),
    "read": lambda: fail(ValueError(repr(sys.stdin.read()))),
    "long": lambda: fail(Long()),
    "loud": lambda: fail(Loud()), "mute": lambda: fail(Mute()),
    "memory": lambda: len(bytearray(2**30)),
}

def score(completion, answer):
    ACTS.get(completion, int)()
    return float(completion == answer)
"""


@pytest.fixture
def scoring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Scoring]]:
    """Makes a `Scoring` of one worker, whose scorer lies in the current folder and does what a completion names."""
    (tmp_path / "hostile.py").write_text(HOSTILE)
    monkeypatch.chdir(tmp_path)
    made = []

    def make(timeout: float = 20.0, sandbox: Sandbox = DEFAULT) -> Scoring:
        made.append(Scoring({"name": "hostile:score"}, timeout=timeout, workers=1, sandbox=sandbox))
        return made[-1]

    yield make
    for one in made:
        one.close()
