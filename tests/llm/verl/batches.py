"""Rollout batches as verl's controller has them: ragged rows, shuffled, with padding rows between them."""

from dataclasses import dataclass

import numpy as np
import torch

import tpo
from tpo.llm.verl.rollouts import Ragged, Rollouts, places


@dataclass
class Batch:
    uids: list[str]
    keys: list[str]
    lengths: list[int]
    scores: torch.Tensor
    masks: list[torch.Tensor]
    old: list[torch.Tensor]
    values: list[torch.Tensor]
    G: int
    K: int

    def __len__(self):
        return len(self.uids)

    def rollouts(self, objective, old=True):
        return Rollouts(
            objective,
            places(self.uids, self.keys),
            self.scores,
            ragged(self.masks),
            ragged(self.old) if old else None,
            ragged(self.values) if objective.uses_values else None,
        )

    def candidates(self):
        """(group, candidate) -> row; groups and candidates in the order of their first row."""
        seen, found = {}, {}
        for row, uid in enumerate(self.uids):
            if not uid.startswith("pad"):
                g = seen.setdefault(uid, (len(seen), []))
                found[g[0], len(g[1])] = row
                g[1].append(row)
        return found

    def _stacked(self, rows, fill):
        """[G, K, ...] of a number or tensor per row."""
        at = self.candidates()
        return torch.stack(
            [
                torch.stack([rows(at[g, k]) if (g, k) in at else fill for k in range(self.K)])
                for g in range(self.G)
            ]
        )

    def _padded(self, rows):
        """[G, K, T] of numbers per token."""
        T = max(self.lengths)
        zero = torch.zeros(T, dtype=rows[0].dtype)
        return self._stacked(
            lambda r: torch.nn.functional.pad(rows[r], (0, T - len(rows[r]))), zero
        )

    def groups(self, objective):
        """Whole groups in float64, [G, K, T]."""
        nothing = torch.tensor(torch.nan, dtype=torch.float64)
        scores = self._stacked(lambda r: self.scores[r].double(), nothing)
        valid = scores.isfinite()
        return tpo.Groups(
            self._padded([x.double() for x in self.old]),
            torch.where(valid, scores, 0.0),
            mask=self._padded(self.masks) != 0,
            valid=valid,
            values=self._padded([x.double() for x in self.values])
            if objective.uses_values
            else None,
        )

    def exact(self, objective, log_probs, scale=1.0):
        """[len] per row: dL/d log pi, by float64 autograd of the loss over whole groups, [B, K, T]."""
        leaves = [x.double().clone().requires_grad_() for x in log_probs]
        new, group = self._padded(leaves), self.groups(objective)
        loss = scale * objective.loss(new, objective.prepare(group))
        gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
        return [
            torch.zeros_like(x) if g is None else g for x, g in zip(leaves, gradients, strict=True)
        ]


def ragged(rows):
    starts = torch.tensor([0, *np.cumsum([len(x) for x in rows])])
    return Ragged(torch.cat(rows), starts)


def nested(rows):
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def batch(seed=0, G=5, K=4, T=9, padding=4, lost=2, unscored=1, tools=True):
    """Ragged groups: `lost` sessions never came back, `unscored` have no score, tool tokens are masked."""
    rng = np.random.default_rng(seed)
    rows = [(f"uid{g}", k) for g in range(G) for k in range(K)]
    gone = set(rng.choice(len(rows), lost, replace=False).tolist())
    rows = [row for i, row in enumerate(rows) if i not in gone]
    rows += [("pad0", i) for i in range(padding)]
    rows = [rows[i] for i in rng.permutation(len(rows))]
    lengths = [1 if u == "pad0" else int(rng.integers(2, T + 1)) for u, _ in rows]
    scores = torch.tensor(rng.integers(0, 2, len(rows)), dtype=torch.float32)
    real = [i for i, (u, _) in enumerate(rows) if u != "pad0"]
    scores[[real[i] for i in range(unscored)]] = torch.nan
    masks = [torch.ones(n, dtype=torch.int64) for n in lengths]
    for i, (u, _) in enumerate(rows):
        if u == "pad0":
            masks[i][:] = 0
        elif tools and lengths[i] > 3:
            masks[i][1] = 0
    old = [torch.tensor(-rng.exponential(1.0, n), dtype=torch.float32) for n in lengths]
    values = [torch.tensor(rng.random(n), dtype=torch.float32) for n in lengths]
    keys = [f"{u}_{k}_0" for u, k in rows]
    return Batch([u for u, _ in rows], keys, lengths, scores, masks, old, values, G, K)
