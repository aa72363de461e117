"""Rewards are called as TRL calls them; one that raises or returns nonsense costs its rows, not the run.

Only rewards that score nothing from the start end a run.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tpo.llm.rewards.pool import Failures

HOPELESS = 3
"""Rollout batches without any score, from the start, that end a run."""


class Guarded:
    """A TRL reward function; a call that raises or returns the wrong number of rewards gives None throughout.

    It is called in the caller's thread, so that `signal.alarm` works. Only with a `timeout` in seconds does it
    run in a thread of its own, which is not waited for if it hangs. Single rewards that are NaN, infinite or no
    number become None. `failures` counts by kind; `failed` is how many rows the last call lost so. None itself
    is TRL's way to say that the function does not apply to a row: no failure.
    """

    def __init__(self, function: Callable[..., Any], timeout: float | None = None) -> None:
        """Wrap a reward function."""
        self.function = function
        self.timeout = timeout
        self.failures = Failures()
        self.failed = 0
        inner = _unwrapped(function)
        self.__name__ = getattr(inner, "__name__", type(inner).__name__)

    def __call__(self, prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
        """One reward per completion, or None."""
        given = {"prompts": prompts, "completions": completions, **columns}
        try:
            found = _listed(self._in_time(given) if self.timeout else self.function(**given))
        except Exception as error:  # the user's code: any error is its own
            return self._lost(error, len(completions))
        return self._rewards(found, len(completions))

    async def awaited(self, prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
        """The same for an async function."""
        given = {"prompts": prompts, "completions": completions, **columns}
        try:
            call = self.function(**given)
            found = _listed(
                await (
                    asyncio.wait_for(_hung_if_late(call), self.timeout) if self.timeout else call
                )
            )
        except Exception as error:  # as above
            return self._lost(error, len(completions))
        return self._rewards(found, len(completions))

    def _in_time(self, given: dict[str, Any]) -> Any:
        box: dict[str, Any] = {}

        def call() -> None:
            try:
                box["value"] = self.function(**given)
            except Exception as error:  # raised again in the caller's thread
                box["error"] = error

        thread = threading.Thread(target=call, daemon=True, name=f"reward {self.__name__}")
        thread.start()
        thread.join(self.timeout)
        if thread.is_alive():
            raise HungError
        if "error" in box:
            raise box["error"]
        return box["value"]

    def _rewards(self, found: list[Any], n: int) -> list[float | None]:
        if len(found) != n:
            self.failures.add(
                "shape", f"{self.__name__} returned {len(found)} rewards for {n} completions"
            )
            self.failed = n
            return [None] * n
        rewards = [self._number(x) for x in found]
        self.failed = sum(r is None and x is not None for r, x in zip(rewards, found, strict=True))
        return rewards

    def _lost(self, error: Exception, n: int) -> list[float | None]:
        """No reward of a call, and why."""
        self.failed = n
        if isinstance(error, HungError):
            self.failures.add("hung", f"{self.__name__} took over {self.timeout:g} s")
        elif isinstance(error, NoRewardsError):
            self.failures.add("shape", f"{self.__name__} returned {error}, expected {n} rewards")
        else:
            what = f"{self.__name__}: {type(error).__name__}: {error}"
            if self.timeout and "signal" in str(error) and "thread" in str(error):
                what += (
                    f". reward_timeout={self.timeout:g} runs a reward in a thread, where signal.alarm does not "
                    "work: leave reward_timeout out"
                )
            self.failures.add("raised", what)
        return [None] * n

    def _number(self, value: Any) -> float | None:
        if value is None:
            return None
        try:
            number = float(value.item() if hasattr(value, "item") else value)
        except (TypeError, ValueError, RuntimeError):
            self.failures.add("no number", f"{self.__name__} returned {value!r}")
            return None
        if not math.isfinite(number):
            self.failures.add("not finite", f"{self.__name__} returned {number}")
            return None
        return number


class HungError(Exception):
    """A reward function took longer than it may."""


class NoRewardsError(Exception):
    """A reward function returned what holds no rewards."""


async def _hung_if_late(call: Any) -> Any:
    """Tell a time limit of ours, which cancels, from a TimeoutError of the function's own."""
    try:
        return await call
    except asyncio.CancelledError:
        raise HungError from None


def _listed(found: Any) -> list[Any]:
    """The rewards of a list, tuple, array, tensor or whatever else TRL can go through."""
    if getattr(found, "ndim", None) == 1:
        return list(found.tolist())
    if isinstance(found, (str, bytes, dict)) or getattr(found, "ndim", None) == 0:
        raise NoRewardsError(repr(found)[:80])
    try:
        rows = iter(found)
    except TypeError:
        raise NoRewardsError(repr(found)[:80]) from None
    return list(rows)


class Beginning:
    """Waits for the first scores: an error may pass, but a reward that never gives one never will."""

    def __init__(self) -> None:
        """Nothing has been scored yet."""
        self.batches, self.scored = 0, False
        self._failing: set[str] | None = None
        """functions that failed on every row so far"""

    def note(
        self, unscored: float, reward_funcs: Sequence[Any], failed: dict[str, float] | None = None
    ) -> None:
        """Look at a rollout batch; after `HOPELESS` from the start, raise if none holds a score.

        A function that failed on all rows of them, beside others that scored, is named in a warning. `failed`
        is the share of rows that each function lost.
        """
        self.scored = self.scored or unscored < 1
        self.batches += 1
        if self.batches > HOPELESS and self.scored:
            return
        all_lost = {name for name, share in (failed or {}).items() if share == 1}
        self._failing = all_lost if self._failing is None else self._failing & all_lost
        if self.batches < HOPELESS:
            return
        known = {f.__name__: f.failures.first for f in reward_funcs if hasattr(f, "failures")}
        if self.scored:
            for name in sorted(self._failing):
                warnings.warn(
                    f"reward function {name} failed on every completion of {self.batches} rollout batches "
                    f"({_told([known.get(name, {})])}): the model is trained on the other rewards alone. "
                    "Fix it, or leave it out",
                    RuntimeWarning,
                    stacklevel=3,
                )
            return
        found = _told(known.values())
        if found:
            raise RuntimeError(
                f"no completion of {self.batches} rollout batches could be scored ({found}): fix the reward "
                "function, or the scorer"
            )


def _told(known: Any) -> str:
    return "; ".join(f"{kind}: {what}" for first in known for kind, what in first.items())


def guard_all(reward_funcs: Any, timeout: float | None) -> Any:
    """`reward_funcs` with every function guarded; reward models stay as they are."""
    if reward_funcs is None or isinstance(reward_funcs, str):
        return reward_funcs
    if isinstance(reward_funcs, (list, tuple)):
        return [guard_all(one, timeout) for one in reward_funcs]
    itself = getattr(reward_funcs, "guards_itself", False)
    if itself or isinstance(reward_funcs, torch.nn.Module) or not callable(reward_funcs):
        return reward_funcs
    guard = Guarded(reward_funcs, timeout)
    return _async(guard) if _is_async(reward_funcs) else guard


def failed_shares(
    reward_funcs: Sequence[Any], names: Sequence[str], rows: int, missing: Sequence[float]
) -> dict[str, float]:
    """The share of `rows` that each function lost by a failure in its last call.

    Of a reward model it is the share `missing` of NaN; of an environment's reward nothing is known.
    """
    found = {}
    for function, name, share in zip(reward_funcs, names, missing, strict=True):
        guard = getattr(function, "guard", function)
        if isinstance(function, torch.nn.Module):
            found[name] = share
        elif hasattr(guard, "failed"):
            found[name] = guard.failed / rows
    return found


def _async(guard: Guarded) -> Callable[..., Any]:
    """A coroutine function, by which TRL tells an async reward."""

    async def reward(prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
        return await guard.awaited(prompts, completions, **columns)

    reward.__name__ = guard.__name__
    vars(reward).update(guard=guard, failures=guard.failures, guards_itself=True)
    return reward


def _is_async(function: Any) -> bool:
    inner = _unwrapped(function)
    return any(map(inspect.iscoroutinefunction, (inner, getattr(inner, "__call__", None))))  # noqa: B004


def _unwrapped(function: Any) -> Any:
    """What a `functools.partial` calls."""
    while isinstance(function, functools.partial):
        function = function.func
    return function
