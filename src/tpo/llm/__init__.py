"""Language models on TRL: a trainer, text tasks, scorers, evaluation; adapters without maths.

torch, transformers and trl are not imported before a name that needs them is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpo.llm.comparison.method import MethodSpec, method
    from tpo.llm.comparison.plan import Plan
    from tpo.llm.comparison.run import compare
    from tpo.llm.comparison.summary import summary
    from tpo.llm.rewards.guarded import Guarded
    from tpo.llm.rewards.pool import Scoring
    from tpo.llm.rewards.sandbox import Sandbox
    from tpo.llm.runs.evaluation import EvaluationSettings, evaluate
    from tpo.llm.runs.recipe import Recipe
    from tpo.llm.runs.train import train
    from tpo.llm.tasks import TextTask, task
    from tpo.llm.trl.config import TargetPolicyConfig
    from tpo.llm.trl.trainer import TargetPolicyTrainer

_MODULES = {
    "EvaluationSettings": "runs.evaluation",
    "Guarded": "rewards.guarded",
    "MethodSpec": "comparison.method",
    "Plan": "comparison.plan",
    "Recipe": "runs.recipe",
    "Sandbox": "rewards.sandbox",
    "Scoring": "rewards.pool",
    "TargetPolicyConfig": "trl.config",
    "TargetPolicyTrainer": "trl.trainer",
    "TextTask": "tasks",
    "compare": "comparison.run",
    "evaluate": "runs.evaluation",
    "method": "comparison.method",
    "summary": "comparison.summary",
    "task": "tasks",
    "train": "runs.train",
}

__all__ = [
    "EvaluationSettings",
    "Guarded",
    "MethodSpec",
    "Plan",
    "Recipe",
    "Sandbox",
    "Scoring",
    "TargetPolicyConfig",
    "TargetPolicyTrainer",
    "TextTask",
    "compare",
    "evaluate",
    "method",
    "summary",
    "task",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"tpo.llm has no {name!r}. It has {', '.join(__all__)}")
    try:
        return getattr(import_module(f"tpo.llm.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"tpo.llm.{name} needs {error.name}: pip install 'tpo[llm]'", name=error.name
        ) from error
