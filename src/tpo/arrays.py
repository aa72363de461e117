"""The one door to NumPy, JAX and torch: an objective sees an `Array` and a `Namespace`, nothing else.

Every function of `Namespace` is the library's own; the three that the libraries spell differently (`cast`,
`stop_gradient`, `gradient`) and the numerically delicate ones (`log_softmax`, `sigmoid`) are named here once.
"""

import sys
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn, Protocol, TypeAlias, cast

Array: TypeAlias = Any
"""A `numpy.ndarray`, a `jax.Array` or a `torch.Tensor`; one kind per call."""


class Namespace(Protocol):
    """The functions that an objective may use, alike for every library."""

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
    def log_softmax(self, x: Array, /) -> Array: ...
    def stop_gradient(self, x: Array, /) -> Array: ...
    def gradient(self, loss: Callable[[Array], Array], x: Array, /) -> Array: ...
    def cast(self, x: Array, like: Array, /) -> Array: ...
    def known_any(self, flags: Array, /) -> bool: ...


_SHARED = (
    *("abs", "exp", "log", "sqrt", "isfinite", "where", "clip", "minimum", "sum", "amax", "amin"),
    *("cumsum", "concatenate", "zeros_like", "ones_like"),
)


def _namespace(module: ModuleType, **own: Callable[..., Any]) -> Namespace:
    shared = {name: getattr(module, name) for name in _SHARED}
    library = module.__name__.partition(".")[0]
    return cast(Namespace, SimpleNamespace(library=library, **shared, **own))


def _numpy() -> Namespace:
    import numpy as np

    def log_softmax(x: Array) -> Array:
        shifted = x - np.max(x, axis=-1, keepdims=True)
        return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))

    def no_gradient(loss: Callable[[Array], Array], x: Array) -> NoReturn:
        raise NotImplementedError(
            "NumPy has no automatic differentiation and this objective states no closed form: "
            "pass JAX or torch arrays, or give the objective a `slope` method"
        )

    return _namespace(
        np,
        sort=np.sort,
        sigmoid=lambda x: 0.5 * (1.0 + np.tanh(0.5 * x)),
        log_softmax=log_softmax,
        stop_gradient=lambda x: x,
        gradient=no_gradient,
        cast=lambda x, like: x.astype(like.dtype),
        known_any=lambda flags: bool(flags.any()),
    )


def _jax() -> Namespace:
    import jax

    return _namespace(
        jax.numpy,
        sort=jax.numpy.sort,
        sigmoid=jax.nn.sigmoid,
        log_softmax=jax.nn.log_softmax,
        stop_gradient=jax.lax.stop_gradient,
        gradient=lambda loss, x: jax.grad(loss)(x),
        cast=lambda x, like: x.astype(like.dtype),
        known_any=lambda flags: not isinstance(flags, jax.core.Tracer) and bool(flags.any()),
    )


def _torch() -> Namespace:
    import torch

    def known_any(flags: torch.Tensor) -> bool:
        if torch.compiler.is_compiling():
            return False
        try:
            return bool(flags.any())
        except (
            RuntimeError
        ):  # under torch.vmap values are not known, and torch offers no question for it
            return False

    return _namespace(
        torch,
        sort=lambda x: torch.sort(x).values,
        sigmoid=torch.sigmoid,
        log_softmax=lambda x: torch.log_softmax(x, -1),
        stop_gradient=torch.Tensor.detach,
        gradient=lambda loss, x: torch.func.grad(loss)(x),
        cast=lambda x, like: x.to(like.dtype),
        known_any=known_any,
    )


_LIBRARIES = {"numpy": ("ndarray", _numpy), "jax": ("Array", _jax), "torch": ("Tensor", _torch)}
_OF_TYPE: dict[type, Namespace] = {}
_LOADED: dict[str, Namespace] = {}


def namespace(x: object) -> Namespace | None:
    """The namespace of the library that `x` belongs to; None where `x` is no array.

    A library is looked for only where the caller has imported it, so nothing is imported for its sake.
    """
    kind = type(x)
    if kind not in _OF_TYPE:
        for library, (array, load) in _LIBRARIES.items():
            module = sys.modules.get(library)
            if module is not None and isinstance(x, getattr(module, array)):
                _OF_TYPE[kind] = _LOADED.setdefault(library, load())
    return _OF_TYPE.get(kind)
