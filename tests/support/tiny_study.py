"""`tpo`, with a study of two short runs; and jobs that misbehave."""

import os
import signal
import sys
from dataclasses import dataclass, replace

from tpo.cli import main
from tpo.declarations.study import Scale
from tpo.lab import studies
from tpo.lab.execution.runner import Job
from tpo.lab.studies.computations import Computation

EPISODES = 12000
SETTINGS = {"data": "digits", "B": 16, "hidden": (16,), "test_every": 500}
TINY = replace(
    studies.get_study("mnist"),
    name="tiny",
    methods=("dg", "pg"),
    scales={"smoke": Scale(3, EPISODES, SETTINGS)},
)


@dataclass(frozen=True)
class Wrong(Computation):
    """Raises."""

    name = "wrong"

    def arrays(self):
        raise ValueError("the path is missing")


@dataclass(frozen=True)
class Deadly(Computation):
    """Takes its worker along."""

    name = "deadly"

    def arrays(self):
        os.kill(os.getpid(), signal.SIGKILL)


def planned(job):
    return Job({"H": 1}, job.name, job.name, job)


if __name__ == "__main__":
    studies.register(TINY)
    sys.exit(main(sys.argv[1:]))
