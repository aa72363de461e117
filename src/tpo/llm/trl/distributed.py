"""Collective operations: what the processes (ranks) of a training run compute together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

Tensor = torch.Tensor


class Collectives:
    """Operations over all ranks; all ranks must call each of them. Without distribution there is one rank."""

    def __init__(self, accelerator: Any) -> None:
        """Over the processes of this accelerator."""
        self._accelerator = accelerator

    def gather_rows(self, local: Tensor) -> Tensor:
        """[N, T] rows of all ranks, padded with zeros to the longest."""
        padded = self._accelerator.pad_across_processes(local, dim=1)
        rows: Tensor = self._accelerator.gather(padded)
        return rows

    def gather_kept(self, output: Mapping[str, Any]) -> Tensor:
        """[N] False for candidates whose ratio between trainer and sampler is extreme: TRL sets it to 0."""
        ratio = output.get("importance_sampling_ratio")
        if ratio is None:
            return torch.ones((), dtype=torch.bool, device=self._accelerator.device)
        kept: Tensor = self._accelerator.gather((ratio != 0).any(-1))
        return kept

    def token_mean(self, x: Tensor, mask: Tensor) -> float:
        """The mean over the tokens of all ranks."""
        sums = torch.stack([(x * mask).sum(), mask.sum().to(x.dtype)])
        total, n = self._accelerator.reduce(sums, reduction="sum").tolist()
        return float(total / max(n, 1.0))

    def row_mean_range(self, x: Tensor, mask: Tensor) -> tuple[float, float]:
        """The smallest and the largest row mean over all ranks; NaN where no row has a token."""
        means = self.gather_rows(((x * mask).sum(-1) / mask.sum(-1))[:, None])
        known = means[~means.isnan()]
        if not len(known):
            return torch.nan, torch.nan
        low, high = torch.stack([known.min(), known.max()]).tolist()
        return low, high

    def rank_mean(self, numbers: Tensor) -> list[float]:
        """[n] numbers of each rank, averaged over the ranks that have one."""
        means: list[float] = self._accelerator.gather(numbers[None]).nanmean(0).tolist()
        return means
