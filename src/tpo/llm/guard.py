"""Rewards that raise, hang or are nonsense count as not scored; only if none ever is does training end."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tpo.llm.scoring import Failures

HOPELESS = 3
"""Rollout batches without any score, from the start, that end a run."""


class Guarded:
    """A TRL reward function, of which a call that raises or takes over `timeout` seconds gives None throughout.

    Single rewards that are NaN, infinite or no number become None. A call that hangs goes on in a thread of its
    own, which is never waited for. `failures` counts by kind.
    """

    def __init__(self, function: Callable[..., Any], timeout: float) -> None:
        """Wrap a reward function."""
        self.function = function
        self.timeout = timeout
        self.failures = Failures()
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
        """One reward per completion, or None."""
        n = len(completions)
        found = self._called(prompts=prompts, completions=completions, **columns)
        if found is None:
            return [None] * n
        if not isinstance(found, (list, tuple)) or len(found) != n:
            self.failures.add("shape", f"{self.__name__} returned no list of {n} rewards")
            return [None] * n
        return [self._number(x) for x in found]

    def _called(self, **arguments: Any) -> Any:
        box: dict[str, Any] = {}

        def call() -> None:
            try:
                box["value"] = self.function(**arguments)
            except Exception as error:  # a scorer of the user's: any trouble is its own
                box["error"] = error

        thread = threading.Thread(target=call, daemon=True, name=f"reward {self.__name__}")
        thread.start()
        thread.join(self.timeout)
        if thread.is_alive():
            self.failures.add("hung", f"{self.__name__} took over {self.timeout:g} s")
            return None
        if "error" in box:
            error = box["error"]
            self.failures.add("raised", f"{self.__name__}: {type(error).__name__}: {error}")
            return None
        return box["value"]

    def _number(self, value: Any) -> float | None:
        if value is None:
            return None  # TRL's way to say: this function does not apply to this row
        try:
            number = float(value)
        except (TypeError, ValueError):
            self.failures.add("no number", f"{self.__name__} returned {value!r}")
            return None
        if not math.isfinite(number):
            self.failures.add("not finite", f"{self.__name__} returned {number}")
            return None
        return number


class Beginning:
    """Waits for the first score: a trouble may pass, but rewards that never give one never will."""

    def __init__(self) -> None:
        """Nothing has been scored yet."""
        self.batches, self.scored = 0, False

    def note(self, unscored: float, reward_funcs: Sequence[Any]) -> None:
        """Raise what went wrong first, if `HOPELESS` rollout batches from the start hold no score."""
        self.scored = self.scored or unscored < 1
        self.batches += 1
        if self.scored or self.batches < HOPELESS:
            return
        known = [f.failures.first for f in reward_funcs if hasattr(f, "failures")]
        found = "; ".join(f"{kind}: {what}" for one in known for kind, what in one.items())
        if found:
            raise RuntimeError(
                f"no completion of {self.batches} rollout batches could be scored ({found}): mend the reward "
                "function, or the scorer"
            )


def guard_all(reward_funcs: Any, timeout: float) -> Any:
    """`reward_funcs` with every plain function guarded; reward models and async functions stay as they are."""
    if reward_funcs is None or isinstance(reward_funcs, str):
        return reward_funcs
    if isinstance(reward_funcs, (list, tuple)):
        return [guard_all(one, timeout) for one in reward_funcs]
    return Guarded(reward_funcs, timeout) if _plain(reward_funcs) else reward_funcs


def _plain(function: Any) -> bool:
    import inspect

    import torch

    if isinstance(function, (torch.nn.Module, Guarded)) or not callable(function):
        return False
    if getattr(function, "guards_itself", False):
        return False
    called = function if inspect.isfunction(function) else function.__call__
    return not inspect.iscoroutinefunction(called)
