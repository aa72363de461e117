"""Weight dithering: random low bits of float32 weights, so that small updates take effect under bfloat16.

Under autocast a weight w acts as bf16(w), whose neighbours are |w|/256 to |w|/128 away: far more than one
update at a small learning rate. Many weights together still act as they should if they lie anywhere in
the intervals that bfloat16 rounds to one number. As read, they do not. Those of a bfloat16 checkpoint
lie in the middle, and updates have no effect before they add up to half an interval. Of those of a
quantised file many lie on an edge, and any update, however small, moves them by a whole interval.
"""

from __future__ import annotations

import torch
from torch import nn

LOW_BITS = 16
"""Bits of a float32 that bfloat16 does not have."""


@torch.no_grad()
def dither(model: nn.Module, seed: int) -> None:
    """Give the linear layers that are trained random low bits; their bfloat16 values do not change."""
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    for i, weight in enumerate(layer.weight for layer in layers):
        if weight.requires_grad and weight.dtype == torch.float32 and not weight.is_meta:
            generator = torch.Generator(weight.device).manual_seed(seed + i)
            weight.copy_(_dithered(weight.bfloat16().float(), generator))


def _dithered(weight: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """As integers, the floats that round to w are those less than half of 2^16 away; 0 stays 0."""
    half = 1 << (LOW_BITS - 1)
    offsets = torch.randint(
        1 - half, half, weight.shape, generator=generator, dtype=torch.int32, device=weight.device
    )
    dithered = (weight.view(torch.int32) + offsets).view(torch.float32)
    return torch.where(weight == 0, weight, dithered)
