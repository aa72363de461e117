"""Language models on TRL: a trainer, text tasks, scorers, evaluation; adapters without maths.

Nothing of torch, transformers or trl is imported before a name that needs it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpo.llm.compare import comparison
    from tpo.llm.config import TargetPolicyConfig
    from tpo.llm.evaluation import evaluate
    from tpo.llm.guard import Guarded
    from tpo.llm.methods import Method, method
    from tpo.llm.outcome import summary
    from tpo.llm.plan import Plan
    from tpo.llm.recipe import Recipe
    from tpo.llm.scoring import Scoring
    from tpo.llm.tasks import Task, task
    from tpo.llm.train import train
    from tpo.llm.trainer import TargetPolicyTrainer

_HOMES = {
    "Guarded": "guard",
    "Method": "methods",
    "Plan": "plan",
    "Recipe": "recipe",
    "Scoring": "scoring",
    "TargetPolicyConfig": "config",
    "TargetPolicyTrainer": "trainer",
    "Task": "tasks",
    "comparison": "compare",
    "evaluate": "evaluation",
    "method": "methods",
    "summary": "outcome",
    "task": "tasks",
    "train": "train",
}

__all__ = [
    "Guarded",
    "Method",
    "Plan",
    "Recipe",
    "Scoring",
    "TargetPolicyConfig",
    "TargetPolicyTrainer",
    "Task",
    "comparison",
    "evaluate",
    "method",
    "summary",
    "task",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"tpo.llm has no {name!r}. It has {', '.join(__all__)}")
    try:
        return getattr(import_module(f"tpo.llm.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"tpo.llm.{name} needs {error.name}: pip install 'tpo[llm]'", name=error.name
        ) from error
