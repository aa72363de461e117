"""DAPO's soft length penalty for overlong answers."""

from __future__ import annotations

from tpo import checks
from tpo.arrays import Array


def overlong_penalty(lengths: Array, max_length: float = 20480.0, cache: float = 4096.0) -> Array:
    r"""0 up to max_length - cache, then linear down to -1 at max_length, and -1 beyond.

    .. math:: R_{length} = \mathrm{clip}(\frac{(L_{max} - L_{cache}) - |o|}{L_{cache}}, -1, 0)

    lengths: [B, K], floating; add the result to the scores. Source: DAPO, arXiv 2503.14476.
    """
    xp = checks.same_library(lengths=lengths)
    checks.floating(lengths=lengths)
    checks.positive("cache", cache)
    if not 0 < cache <= max_length:
        raise ValueError(f"cache is {cache!r}, expected at most max_length ({max_length!r})")
    return xp.clip((max_length - cache - lengths) / cache, -1.0, 0.0)
