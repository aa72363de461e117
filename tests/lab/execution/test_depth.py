"""From a command to saved curves it is a short way: few frames of few files."""

import pytest

from support.stack import Depth, depth
from tpo.cli import main
from tpo.storage.store import Store

OWN = ["run", "--task", "bandit", "--arms", "4", "--batch", "4", "--episodes", "2"]
COMMANDS = {
    "own": [*OWN, "--methods", "tpo"],
    "sweep": [*OWN, "--methods", "tpo", "--sweep", "learning_rate=0.1"],
    "study": ["run", "talk", "--scale", "smoke"],
    "comparison": ["compare", "--scale", "smoke", "--methods", "tpo"],
    "workers": [*OWN, "--methods", "tpo", "--workers", "2"],
}


@pytest.mark.parametrize("kind", COMMANDS)
def test_curves_are_saved_a_few_calls_below_the_command(kind, tmp_path, monkeypatch, capsys):
    found: list[Depth] = []
    finish = Store.finish

    def noted(self, key, curves):
        found.append(depth())
        finish(self, key, curves)

    monkeypatch.setattr(Store, "finish", noted)
    assert main([*COMMANDS[kind], "--out", str(tmp_path / "s")]) == 0
    (one,) = found
    assert one.frames[0] == "cli/__init__.py: main"
    assert one.frames[-1] == "lab/execution/scheduler.py: Scheduler._store_step"
    with capsys.disabled():
        print(f"\n{one}")
    one.check()
