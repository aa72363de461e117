"""The protocol of a policy: parameters, and logits over the next action."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax

Params = dict[str, Any]
"""Named arrays; a JAX pytree."""


class Paths(NamedTuple):
    """The distinct continuations that an update evaluates."""

    tokens: jax.Array
    """[R, T-1] all generated tokens but the last, which is predicted and never fed."""
    owner: jax.Array | None
    """[R] the prompt each path continues; None when path r continues prompt r."""


class Policy(Protocol):
    """A frozen value that describes an architecture. Parameters are passed to its methods."""

    @property
    def matrices(self) -> frozenset[str]:
        """Names of the parameters that Muon may orthogonalise, over their last two axes."""
        ...

    def init(self, key: jax.Array) -> Params:
        """Fresh parameters."""
        ...

    def critic(self, outputs: int = 1) -> Policy:
        """The same network with that many values instead of logits, all 0 at first; for cells with a critic."""
        ...

    def prefill(self, params: Params, inputs: Any) -> tuple[jax.Array, Any]:
        """Logits of the first action, [B, V], and the state that continuations start from."""
        ...

    def extend(self, params: Params, state: Any, paths: Paths) -> jax.Array:
        """Logits after each token of each path, [R, T-1, V]; not called where T = 1."""
        ...

    def together(
        self, params: Params, inputs: Any, paths: Paths
    ) -> tuple[jax.Array, jax.Array, Any]:
        """The first logits, those along the paths, and the state: `prefill` and `extend` in one."""
        ...

    def cache(self, state: Any, streams: int) -> Any:
        """The state laid out for S streams per context, decoded one token at a time by `step`."""
        ...

    def step(
        self, params: Params, cache: Any, tokens: jax.Array, t: jax.Array
    ) -> tuple[jax.Array, Any]:
        """Feed action t of each stream, [B, S]: logits of the next, [B, S, V], and the new cache."""
        ...
