"""Ranks: what all processes of a training run know together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

Tensor = torch.Tensor


class Ranks:
    """The processes of a run; one, where it is not distributed."""

    def __init__(self, accelerator: Any) -> None:
        """Those of this accelerator."""
        self._accelerator = accelerator

    def gathered(self, local: Tensor) -> Tensor:
        """[N, T] rows of all ranks, padded with zeros to the longest."""
        padded = self._accelerator.pad_across_processes(local, dim=1)
        found: Tensor = self._accelerator.gather(padded)
        return found

    def kept(self, output: Mapping[str, Any]) -> Tensor:
        """[N] False for candidates whose ratio between sampler and trainer is extreme."""
        ratio = output.get("importance_sampling_ratio")
        if ratio is None:
            return torch.ones((), dtype=torch.bool, device=self._accelerator.device)
        kept: Tensor = self._accelerator.gather((ratio != 0).any(-1))
        return kept

    def mean_over(self, x: Tensor, mask: Tensor) -> float:
        """The mean over the tokens of all ranks."""
        sums = torch.stack([(x * mask).sum(), mask.sum().to(x.dtype)])
        total, n = self._accelerator.reduce(sums, reduction="sum").tolist()
        return float(total / max(n, 1.0))

    def extremes(self, x: Tensor, mask: Tensor) -> tuple[float, float]:
        """The smallest and the largest row mean over all ranks; NaN where no row has a token."""
        means = self.gathered(((x * mask).sum(-1) / mask.sum(-1))[:, None])
        known = means[~means.isnan()]
        if not len(known):
            return torch.nan, torch.nan
        low, high = torch.stack([known.min(), known.max()]).tolist()
        return low, high

    def mean(self, numbers: Tensor) -> list[float]:
        """[n] numbers of each rank, averaged over the ranks that have one."""
        found: list[float] = self._accelerator.gather(numbers[None]).nanmean(0).tolist()
        return found
