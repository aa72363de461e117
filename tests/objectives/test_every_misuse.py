"""Every array argument of the public functions refuses every kind of wrong array, in NumPy, JAX and torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import tpo

LIBRARIES: dict[str, Callable[[Any], Any]] = {
    "numpy": np.asarray,
    "jax": jnp.asarray,
    "torch": torch.asarray,
}
RNG = np.random.default_rng(0)
B, K, T = 2, 3, 4
SHAPES = {
    "log_probs_old": (B, K, T), "scores": (B, K), "token_scores": (B, K, T), "log_probs_ref": (B, K, T),
    "log_probs_rollout": (B, K, T), "values": (B, K, T), "baseline": (B,),
}  # fmt: skip
MASKS = {"mask": (B, K, T), "valid": (B, K), "scored": (B, K)}


def array(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def groups(library: str, **changes: Any) -> tpo.Groups:
    asarray = LIBRARIES[library]
    whole = {name: asarray(array(*shape)) for name, shape in SHAPES.items()}
    masks = {name: asarray(np.ones(shape, bool)) for name, shape in MASKS.items()}
    return tpo.Groups(**{**whole, **masks, **changes})


CALLS: dict[str, tuple[dict[str, tuple[int, ...]], Callable[..., Any]]] = {
    "standardize": ({"scores": (B, K)}, tpo.standardize),
    "target": ({"log_scores_old": (B, K), "u": (B, K)}, tpo.target),
    "loss": ({"log_scores": (B, K), "q": (B, K)}, tpo.loss),
    "coefficients": ({"log_scores": (B, K), "q": (B, K)}, tpo.coefficients),
}
"""Functions of arrays that all have one shape, and of a mask of that shape."""


def mistakes(x: np.ndarray, library: str) -> Iterator[tuple[str, Any]]:
    """What is wrong, and the argument."""
    asarray = LIBRARIES[library]
    for dtype in ("int32", "uint8", "bool", "float16"):
        yield dtype, asarray(x.astype(dtype))
    if library != "numpy":
        half = torch.bfloat16 if library == "torch" else jnp.bfloat16
        yield "bfloat16", asarray(x, dtype=half)
    else:
        yield "objects", x.astype(object)
        yield "text", x.astype(str)
    yield "complex", asarray(x.astype("complex64"))
    yield "a list", x.tolist()
    yield "a number", 1.0
    yield "text itself", "scores"
    yield "another library", LIBRARIES["torch" if library != "torch" else "jax"](x)
    for value in (np.nan, np.inf, -np.inf):
        wrong = x.copy()
        wrong[-1] = value
        yield f"holds {value}", asarray(wrong)
    if x.ndim > 1:
        yield "one axis too few", asarray(x[0])
        yield "an axis to broadcast", asarray(x[..., :1])
    yield "one axis too many", asarray(np.stack([x, x, x, x, x]))
    yield "an empty axis", asarray(x[..., :0])


def refusals() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """A title, the argument that the error names, and the call."""
    for library, asarray in LIBRARIES.items():
        for name, (shapes, call) in CALLS.items():
            right = {k: asarray(array(*shape)) for k, shape in shapes.items()}
            for argument in shapes:
                for what, wrong in mistakes(array(*shapes[argument]), library):
                    alone = what in (
                        "one axis too few",
                        "an axis to broadcast",
                        "one axis too many",
                        "another library",
                    )
                    if not (alone and len(shapes) == 1):
                        given = {**right, argument: wrong}
                        yield (
                            f"{library} {name} {argument} {what}",
                            argument,
                            lambda c=call, g=given: c(**g),
                        )
            for what, wrong in wrong_masks(library, (B, K)):
                given = {**right, "mask": wrong}
                yield f"{library} {name} mask {what}", "mask", lambda c=call, g=given: c(**g)
        for argument, shape in SHAPES.items():
            for what, wrong in mistakes(array(*shape), library):
                if (argument, what) != ("scores", "one axis too many"):
                    given = {argument: wrong}
                    yield (
                        f"{library} Groups {argument} {what}",
                        argument,
                        lambda a=library, g=given: groups(a, **g),
                    )
        for argument, shape in MASKS.items():
            for what, wrong in wrong_masks(library, shape):
                given = {argument: wrong}
                yield (
                    f"{library} Groups {argument} {what}",
                    argument,
                    lambda a=library, g=given: groups(a, **g),
                )
        yield from _of_objectives(library)


def _of_objectives(library: str) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    for name in tpo.list_objectives() if library == "numpy" else ("tpo", "grpo"):
        made = tpo.objective(name)
        prepared = made.prepare(groups(library))
        for what, wrong in mistakes(array(B, K, T), library):
            if not what.startswith(
                "holds"
            ):  # a policy's own NaN goes on to the trainer, which skips the step
                for call in (made.loss, made.coefficients):
                    yield (
                        f"{library} {name} {what}",
                        "log_probs",
                        lambda c=call, w=wrong, p=prepared: c(w, p),
                    )
        for other in (None, {}, 3, groups(library), array(B, K, T)):
            yield (
                f"{library} {name} {type(other).__name__}",
                "prepared",
                lambda m=made, o=other: m.loss(array(B, K, T), o),
            )
            if not isinstance(other, tpo.Groups):
                yield f"{library} {name} prepare", "groups", lambda m=made, o=other: m.prepare(o)


def wrong_masks(library: str, shape: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    asarray, mask = LIBRARIES[library], np.ones(shape, bool)
    for dtype in ("int32", "float32", "uint8"):
        yield dtype, asarray(mask.astype(dtype))
    yield "a list", mask.tolist()
    yield "True", True
    yield "another library", LIBRARIES["torch" if library != "torch" else "jax"](mask)
    yield "one axis too few", asarray(mask[0])
    yield "an axis to broadcast", asarray(mask[..., :1])


def test_every_misuse_is_named() -> None:
    wrong, count = [], 0
    for title, argument, call in refusals():
        count += 1
        try:
            wrong.append(f"{title}: accepted, {str(call())[:60]!r}")
        except (TypeError, ValueError) as error:
            said = str(error)
            if argument not in said or not any(x in said for x in ("expected", ":", "pass")):
                wrong.append(f"{title}: {type(error).__name__}: {said[:150]}")
        except Exception as error:
            wrong.append(f"{title}: {type(error).__name__}: {str(error)[:150]}")
    assert not wrong, "\n".join([f"{len(wrong)} of {count}", *wrong])
    assert count > 2000


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_masked_nan_has_no_influence(library: str) -> None:
    asarray = LIBRARIES[library]
    x, u, mask = array(B, K), array(B, K), np.ones((B, K), bool)
    mask[0, 1] = False
    holed, other = x.copy(), x.copy()
    holed[0, 1], other[0, 1] = np.nan, 7.0
    for call in (tpo.target, tpo.loss, tpo.coefficients):
        found = [
            np.asarray(call(asarray(one), asarray(u), mask=asarray(mask))) for one in (holed, other)
        ]
        np.testing.assert_array_equal(found[0][..., mask[0]] if found[0].ndim else found[0],
                                      found[1][..., mask[0]] if found[1].ndim else found[1])  # fmt: skip
