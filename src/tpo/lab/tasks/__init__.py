"""Tasks: contexts, and rewards for actions in them. They are independent of objectives."""

from tpo.lab.tasks.bandits import Bandit
from tpo.lab.tasks.base import Contexts, Task
from tpo.lab.tasks.codes import Codes
from tpo.lab.tasks.images import Digits
from tpo.lab.tasks.sequences import Sequences

__all__ = ["Bandit", "Codes", "Contexts", "Digits", "Sequences", "Task"]
