"""Weight dithering: random low bits of float32 weights, so that small updates act under bfloat16.

Under autocast a weight w acts as bf16(w), whose neighbours are |w|/256 to |w|/128 away: far more than one
update at a small learning rate. Many weights together still act as they should if they lie anywhere in
the intervals that bfloat16 rounds to one number. As read, they do not. Those of a bfloat16 checkpoint
lie in the middle, and updates are not seen before they add up to half an interval. Of those of a quantised
file many lie on an edge, and any update, however small, moves them by a whole interval.
"""

from __future__ import annotations

import torch
from torch import nn

LOW = 16
"""Bits of a float32 that bfloat16 has not."""


@torch.no_grad()
def dither(model: nn.Module, seed: int) -> None:
    """Give the matrices that are trained low bits at random; in bfloat16 they stay what they are."""
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    for i, weight in enumerate(layer.weight for layer in layers):
        if weight.requires_grad and weight.dtype == torch.float32 and not weight.is_meta:
            draw = torch.Generator(weight.device).manual_seed(seed + i)
            weight.copy_(_dithered(weight.bfloat16().float(), draw))


def _dithered(weight: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    """As integers, the floats that round to w are those less than half of 2^16 away; 0 stays 0."""
    half = 1 << (LOW - 1)
    moves = torch.randint(
        1 - half, half, weight.shape, generator=draw, dtype=torch.int32, device=weight.device
    )
    moved = (weight.view(torch.int32) + moves).view(torch.float32)
    return torch.where(weight == 0, weight, moved)
