"""The backend shim: one `Namespace` of array functions for each of NumPy, JAX and torch.

Objectives use nothing else of these libraries. Most functions are the library's own. Those that the libraries
spell differently, or that need numerical care (`log_softmax`, `sigmoid`), are defined here once.
"""

import math
import sys
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn, Protocol, TypeAlias, cast

Array: TypeAlias = Any
"""A `numpy.ndarray`, a `jax.Array` or a `torch.Tensor`; one kind per call."""


class Namespace(Protocol):
    """The functions that an objective may use, with the same names and arguments for every library."""

    library: str

    def abs(self, x: Array, /) -> Array: ...
    def exp(self, x: Array, /) -> Array: ...
    def log(self, x: Array, /) -> Array: ...
    def sqrt(self, x: Array, /) -> Array: ...
    def sigmoid(self, x: Array, /) -> Array: ...
    def isfinite(self, x: Array, /) -> Array: ...
    def where(self, condition: Array, x: Array | float, y: Array | float, /) -> Array: ...
    def clip(self, x: Array, low: float | None, high: float | None, /) -> Array: ...
    def minimum(self, x: Array, y: Array, /) -> Array: ...
    def sum(
        self, x: Array, /, axis: int | tuple[int, ...] = ..., keepdims: bool = ...
    ) -> Array: ...
    def amax(self, x: Array, /, axis: int | tuple[int, ...], keepdims: bool = ...) -> Array: ...
    def amin(self, x: Array, /, axis: int | tuple[int, ...], keepdims: bool = ...) -> Array: ...
    def cumsum(self, x: Array, /, axis: int) -> Array: ...
    def sort(self, x: Array, /) -> Array: ...
    def concatenate(self, xs: Sequence[Array], /, axis: int) -> Array: ...
    def zeros_like(self, x: Array, /) -> Array: ...
    def ones_like(self, x: Array, /) -> Array: ...
    def softmax(self, x: Array, /) -> Array: ...
    def log_softmax(self, x: Array, /) -> Array: ...
    def repeat(self, times: int, step: Callable[[Any], Any], state: Any, /) -> Any: ...
    def stop_gradient(self, x: Array, /) -> Array: ...
    def gradient(self, loss: Callable[[Array], Array], x: Array, /) -> Array: ...
    def cast(self, x: Array, like: Array, /) -> Array: ...
    def moments(self, x: Array, /) -> tuple[Array, Array]: ...
    def known_all(self, flags: Array, /) -> bool: ...
    def known_finite(self, x: Array, /) -> bool: ...


_SHARED = (
    *("abs", "exp", "log", "sqrt", "isfinite", "where", "clip", "minimum", "sum", "amax", "amin"),
    *("cumsum", "concatenate", "zeros_like", "ones_like"),
)


def _namespace(module: ModuleType, **own: Callable[..., Any]) -> Namespace:
    shared = {name: getattr(module, name) for name in _SHARED}
    library = module.__name__.partition(".")[0]
    return cast(Namespace, SimpleNamespace(library=library, **shared, **own))


def _repeat(times: int, step: Callable[[Any], Any], state: Any) -> Any:
    for _ in range(times):
        state = step(state)
    return state


def _numpy() -> Namespace:
    import numpy as np

    def log_softmax(x: Array) -> Array:
        shifted = x - np.max(x, axis=-1, keepdims=True)
        return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))

    def no_gradient(loss: Callable[[Array], Array], x: Array) -> NoReturn:
        raise NotImplementedError(
            "NumPy has no automatic differentiation and this objective has no closed form: "
            "pass JAX or torch arrays, or define _coefficients in the objective"
        )

    return _namespace(
        np,
        repeat=_repeat,
        sort=np.sort,
        sigmoid=lambda x: 0.5 * (1.0 + np.tanh(0.5 * x)),
        softmax=lambda x: np.exp(log_softmax(x)),
        log_softmax=log_softmax,
        stop_gradient=lambda x: x,
        gradient=no_gradient,
        cast=lambda x, like: x.astype(like.dtype),
        moments=lambda x: (x.mean(-1, keepdims=True), x.std(-1, keepdims=True)),
        known_all=lambda flags: bool(flags.all()),
        known_finite=lambda x: bool(np.isfinite(x).all()),
    )


def _jax() -> Namespace:
    import jax

    def known_all(flags: Array) -> bool:
        return isinstance(flags, jax.core.Tracer) or bool(flags.all())

    return _namespace(
        jax.numpy,
        repeat=lambda times, step, state: jax.lax.fori_loop(0, times, lambda _, s: step(s), state),
        sort=jax.numpy.sort,
        sigmoid=jax.nn.sigmoid,
        softmax=jax.nn.softmax,
        log_softmax=jax.nn.log_softmax,
        stop_gradient=jax.lax.stop_gradient,
        gradient=lambda loss, x: jax.grad(loss)(x),
        cast=lambda x, like: x.astype(like.dtype),
        moments=lambda x: (x.mean(-1, keepdims=True), x.std(-1, keepdims=True)),
        known_all=known_all,
        known_finite=lambda x: known_all(jax.numpy.isfinite(x)),
    )


def _torch() -> Namespace:
    import torch

    def known(condition: Callable[[], Any]) -> bool:
        if torch.compiler.is_compiling():
            return True
        try:
            return bool(condition())
        except RuntimeError:  # under torch.vmap no value is known, and torch has no way to ask
            return True

    def finite(x: torch.Tensor) -> bool:
        """The sum is finite only if every entry is. If it is not, it may have overflowed: then check each."""
        return math.isfinite(x.sum().item()) or bool(x.isfinite().all())

    def moments(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sigma, mean = torch.std_mean(x, -1, correction=0, keepdim=True)
        return mean, sigma

    return _namespace(
        torch,
        repeat=_repeat,
        sort=lambda x: torch.sort(x).values,
        sigmoid=torch.sigmoid,
        softmax=lambda x: torch.softmax(x, -1),
        log_softmax=lambda x: torch.log_softmax(x, -1),
        stop_gradient=torch.Tensor.detach,
        gradient=lambda loss, x: torch.func.grad(loss)(x),
        cast=lambda x, like: x.to(like.dtype),
        moments=moments,
        known_all=lambda flags: known(flags.all),
        known_finite=lambda x: known(lambda: finite(x)),
    )


_LIBRARIES = {"numpy": ("ndarray", _numpy), "jax": ("Array", _jax), "torch": ("Tensor", _torch)}
_OF_TYPE: dict[type, Namespace] = {}
_LOADED: dict[str, Namespace] = {}


def namespace(x: object) -> Namespace | None:
    """The namespace of the library that `x` belongs to; None if `x` is not an array.

    Only libraries that the caller has imported are considered, so this never imports one.
    """
    kind = type(x)
    if kind not in _OF_TYPE:
        for library, (array, load) in _LIBRARIES.items():
            module = sys.modules.get(library)
            if module is not None and isinstance(x, getattr(module, array)):
                _OF_TYPE[kind] = _LOADED.setdefault(library, load())
    return _OF_TYPE.get(kind)
