"""Validation at the public boundary. Every error names the argument, what was passed and what to do."""

import difflib
from collections.abc import Iterable
from typing import Any

from tpo.arrays import Array, Namespace, namespace

FLOATS = ("float32", "float64")
_DTYPE_NAMES: dict[Any, str] = {}


def dtype_name(x: Array) -> str:
    """The plain name of an array's dtype: `float32` for numpy, jax and torch alike."""
    dtype = x.dtype
    if dtype not in _DTYPE_NAMES:
        _DTYPE_NAMES[dtype] = str(dtype).removeprefix("torch.")
    return _DTYPE_NAMES[dtype]


def close_match(name: object, valid: Iterable[str]) -> str:
    """` Did you mean 'X'?` if one of the valid names is close to this one, else an empty string."""
    close = difflib.get_close_matches(str(name), list(valid))
    close.sort(key=lambda one: sorted(one) != sorted(str(name)))  # two letters swapped come first
    return f" Did you mean {close[0]!r}?" if close else ""


LONGEST_LINE = 1000
"""Characters that `one_line` keeps."""


def one_line(text: str) -> str:
    """A text from elsewhere as one line of at most LONGEST_LINE characters, without escapes for terminals.

    White space is one blank, and a control character is written as its code.
    """
    words = " ".join(text[: 10 * LONGEST_LINE].split())[:LONGEST_LINE]
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in words)[:LONGEST_LINE]


def same_library(**arrays: Array) -> Namespace:
    """The namespace that all `arrays` that are not None share; mixed libraries raise."""
    found: Namespace | None = None
    first = ""
    for name, x in arrays.items():
        if x is None:
            continue
        xp = namespace(x)
        if xp is None:
            raise TypeError(
                f"{name} is a {type(x).__name__}, expected a NumPy, JAX or torch array: "
                f"convert it, for example numpy.asarray({name}, dtype='float32')"
            )
        if found is None:
            found, first = xp, name
        elif xp is not found:
            raise TypeError(
                f"{first} is a {found.library} array and {name} a {xp.library} array: "
                "convert both to one library"
            )
    if found is None:
        raise TypeError("no array was given: pass NumPy, JAX or torch arrays")
    return found


def floating(**arrays: Array) -> None:
    """Every array is float32 or float64, and all are of one dtype."""
    first = dtype = ""
    for name, x in arrays.items():
        if x is None:
            continue
        got = dtype_name(x)
        if got not in FLOATS:
            advice = "half precision loses whole nats over a long sequence" if "16" in got else ""
            raise TypeError(
                f"{name} is {got}, expected float32 or float64{advice and ' (' + advice + ')'}: "
                f"cast {name} first"
            )
        if not dtype:
            first, dtype = name, got
        elif got != dtype:
            raise TypeError(f"{name} is {got} but {first} is {dtype}: cast one of them")


def boolean(**masks: Array) -> None:
    """Every mask is boolean."""
    for name, x in masks.items():
        if x is not None and dtype_name(x) not in ("bool", "bool_"):
            raise TypeError(f"{name} is {dtype_name(x)}, expected bool: pass {name} != 0")


def shaped(shape: tuple[int, ...], like: str, **arrays: Array) -> None:
    """Every array has exactly `shape`, the shape of `like`: nothing is broadcast."""
    for name, x in arrays.items():
        if x is not None and tuple(x.shape) != shape:
            raise ValueError(
                f"{name} has shape {list(x.shape)}, expected {list(shape)} as {like} has: "
                "give every candidate its own entry, arrays are not broadcast"
            )


def alike(mask: Array | None = None, **arrays: Array) -> Namespace:
    """One library, one float dtype, one shape for all arrays; a boolean mask of that shape, or None."""
    xp = same_library(**arrays, mask=mask)
    floating(**arrays)
    boolean(mask=mask)
    name, first = next(iter(arrays.items()))
    shaped(tuple(first.shape), name, **arrays, mask=mask)
    return xp


def grouped(mask: Array | None = None, **arrays: Array) -> Namespace:
    """`alike`, and the last axis, the group, is not empty."""
    xp = alike(mask, **arrays)
    name, first = next(iter(arrays.items()))
    if len(first.shape) == 0 or first.shape[-1] == 0:
        raise ValueError(
            f"{name} has shape {list(first.shape)}: the last axis, the group, is empty"
        )
    return xp


def positive(name: str, value: float) -> None:
    """A number above zero."""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not 0 < value < float("inf")
    ):
        raise ValueError(f"{name} is {value!r}, expected a finite number above 0")


SCORER = "mark those candidates invalid with a mask (valid=... in tpo.Groups) or fix the scorer"


def finite(xp: Namespace, name: str, x: Array, advice: str = SCORER) -> None:
    """No NaN and no infinity. Skipped under tracing, compilation and vmap, where values are unknown."""
    if not xp.known_finite(x):
        raise ValueError(f"{name} holds NaN or infinity: {advice}")
