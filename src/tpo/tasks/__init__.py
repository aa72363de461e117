"""What is asked and how it is scored. Tasks know nothing of objectives."""

from tpo.tasks.bandits import Bandit
from tpo.tasks.base import Contexts, Task
from tpo.tasks.images import Digits
from tpo.tasks.sequences import Sequences

__all__ = ["Bandit", "Contexts", "Digits", "Sequences", "Task"]
