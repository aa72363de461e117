"""Options that change over training, by the share of it that is done."""

from __future__ import annotations

import math

from tpo.arrays import Array
from tpo.groups import Groups


def annealed(groups: Groups, start: float, end: float) -> Array:
    """[B, 1] start^(1-s)·end^s, where s is `groups.progress`."""
    if groups.progress is None:
        raise ValueError(
            "eta_final needs to know how much of training is done: pass progress=..., a number from 0 to 1 "
            "per context, to tpo.Groups"
        )
    share = groups.progress[:, None]
    return groups.xp.exp((1 - share) * math.log(start) + share * math.log(end))
