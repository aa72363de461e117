"""Guards around reward functions: one that raises or returns nonsense loses its rows, and the run continues.

A run ends only if its rewards score nothing from the start.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from tpo.llm.rewards.pool import Failures

FIRST_BATCHES = 3
"""A run ends if none of so many rollout batches at its start has a score."""


class Guarded:
    """A TRL reward function; every reward is None if a call raises or returns the wrong number of rewards.

    The function runs in the caller's thread, so that `signal.alarm` works. With a `timeout` in seconds it runs
    in a thread of its own, which is abandoned if it hangs. A single reward that is NaN, infinite or no number
    becomes None. `failures` counts by kind, and `failed` is the number of rows that failed in the last call. A
    None from the function is not a failure: in TRL it means that the function does not apply to the row.
    """

    is_guarded = True

    def __init__(self, function: Callable[..., Any], timeout: float | None = None) -> None:
        """`timeout` is in seconds per call; None has no limit."""
        self.function = function
        self.timeout = timeout
        self.failures = Failures()
        self.failed = 0
        inner = _unwrapped(function)
        self.__name__ = getattr(inner, "__name__", type(inner).__name__)

    def __call__(self, prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
        """For each completion a reward or None."""
        given = {"prompts": prompts, "completions": completions, **columns}
        try:
            found = _as_list(self._with_timeout(given) if self.timeout else self.function(**given))
        except Exception as error:  # the user's code may raise anything
            return self._failed(error, len(completions))
        return self._rewards(found, len(completions))

    async def call_async(
        self, prompts: Any, completions: Any, **columns: Any
    ) -> list[float | None]:
        """The same for an async reward function."""
        given = {"prompts": prompts, "completions": completions, **columns}
        try:
            call = self.function(**given)
            found = _as_list(
                await (
                    asyncio.wait_for(_hung_if_late(call), self.timeout) if self.timeout else call
                )
            )
        except Exception as error:  # as above
            return self._failed(error, len(completions))
        return self._rewards(found, len(completions))

    def _with_timeout(self, given: dict[str, Any]) -> Any:
        """What the function returns, called in another thread; HungError if it takes too long."""
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
        """The rewards of n completions from what the function returned."""
        if len(found) != n:
            self.failures.add(
                "shape", f"{self.__name__} returned {len(found)} rewards for {n} completions"
            )
            self.failed = n
            return [None] * n
        rewards = [self._number(x) for x in found]
        self.failed = sum(r is None and x is not None for r, x in zip(rewards, found, strict=True))
        return rewards

    def _failed(self, error: Exception, n: int) -> list[float | None]:
        """Count the failure of a call; all of its n rewards are None."""
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
        """A reward as a float; None, counted as a failure, if it is not a finite number."""
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
    """A reward function took longer than its time limit."""


class NoRewardsError(Exception):
    """A reward function returned something that is not a list of rewards."""


async def _hung_if_late(call: Any) -> Any:
    """Raise HungError at our time limit, which cancels; a TimeoutError is then the function's own."""
    try:
        return await call
    except asyncio.CancelledError:
        raise HungError from None


def _as_list(found: Any) -> list[Any]:
    """The rewards as a list, from a list, tuple, array, tensor or any other iterable that TRL accepts."""
    if getattr(found, "ndim", None) == 1:
        return list(found.tolist())
    if isinstance(found, (str, bytes, dict)) or getattr(found, "ndim", None) == 0:
        raise NoRewardsError(repr(found)[:80])
    try:
        rows = iter(found)
    except TypeError:
        raise NoRewardsError(repr(found)[:80]) from None
    return list(rows)


class StartCheck:
    """Ends a run whose first rollout batches have no scores: a reward that never worked will not start to."""

    def __init__(self) -> None:
        """No rollout batch has been scored yet."""
        self.batches, self.scored = 0, False
        self._failing: set[str] | None = None
        """functions that failed on every row so far"""

    def check(
        self, unscored: float, functions: Mapping[str, Any], failed: dict[str, float] | None = None
    ) -> None:
        """Count one rollout batch; after FIRST_BATCHES, raise if failures have left all without a score.

        `unscored` is the share of completions without a score, `failed` the share of rows on which each
        function failed. If others have scored, a function that failed on every row is named in a warning.
        """
        self.scored = self.scored or unscored < 1
        self.batches += 1
        if self.batches > FIRST_BATCHES and self.scored:
            return
        all_failed = {name for name, share in (failed or {}).items() if share == 1}
        self._failing = all_failed if self._failing is None else self._failing & all_failed
        if self.batches < FIRST_BATCHES:
            return
        known = {name: f.failures.first for name, f in functions.items() if hasattr(f, "failures")}
        if self.scored:
            for name in sorted(self._failing):
                warnings.warn(
                    f"reward function {name} failed on every completion of {self.batches} rollout batches "
                    f"({_joined([known.get(name, {})])}): the model is trained on the other rewards alone. "
                    "Fix it, or leave it out",
                    RuntimeWarning,
                    stacklevel=3,
                )
            return
        found = _joined(known.values())
        if found:
            raise RuntimeError(
                f"no completion of {self.batches} rollout batches could be scored ({found}): fix the reward "
                "function, or the scorer"
            )


def _joined(known: Any) -> str:
    """The first failures of each kind as text."""
    return "; ".join(f"{kind}: {what}" for first in known for kind, what in first.items())


def guard_all(reward_funcs: Any, timeout: float | None) -> Any:
    """`reward_funcs` with a guard around every function; reward models are not wrapped."""
    if reward_funcs is None or isinstance(reward_funcs, str):
        return reward_funcs
    if isinstance(reward_funcs, (list, tuple)):
        return [guard_all(one, timeout) for one in reward_funcs]
    guarded = getattr(reward_funcs, "is_guarded", False)
    if guarded or isinstance(reward_funcs, torch.nn.Module) or not callable(reward_funcs):
        return reward_funcs
    guard = Guarded(reward_funcs, timeout)
    return _async(guard) if _is_async(reward_funcs) else guard


def unique_names(names: Sequence[str]) -> list[str]:
    """The names of reward functions, told apart: the second `score` is `score#2`."""
    return [
        name if (n := list(names[: i + 1]).count(name)) == 1 else f"{name}#{n}"
        for i, name in enumerate(names)
    ]


def failed_shares(
    reward_funcs: Sequence[Any], names: Sequence[str], rows: int, missing: Sequence[float]
) -> dict[str, float]:
    """The share of `rows` on which each function failed in its last call.

    For a reward model it is its share of NaN, `missing`. The reward of an environment is left out: nothing is
    known of its failures.
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
    """The guard as a coroutine function, by which TRL recognises an async reward."""

    async def reward(prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
        return await guard.call_async(prompts, completions, **columns)

    reward.__name__ = guard.__name__
    vars(reward).update(guard=guard, failures=guard.failures, is_guarded=True)
    return reward


def _is_async(function: Any) -> bool:
    inner = _unwrapped(function)
    return any(map(inspect.iscoroutinefunction, (inner, getattr(inner, "__call__", None))))  # noqa: B004


def _unwrapped(function: Any) -> Any:
    """The function that a `functools.partial` calls."""
    while isinstance(function, functools.partial):
        function = function.func
    return function
