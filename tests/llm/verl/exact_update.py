"""The gradient of an objective over whole groups, on a float64 copy of the model."""

import torch
from transformers import AutoModelForCausalLM

import tpo

PROMPTS, K, VOCABULARY = 4, 4, 32


def chosen_by_policy(response):
    """1 on all tokens but the second, which plays the part of a tool's answer."""
    return (torch.arange(len(response)) != 1).long()


class Exact:
    """The objective over whole groups, on a float64 copy of the model."""

    def __init__(self, folder, found, objective, values=None):
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
        self.found, self.objective = found, objective
        T = max(len(row[3]) for row in found)
        at = {(row[0], row[1]): i for i, row in enumerate(found)}
        self.at = [[at.get((f"uid{g}", k)) for k in range(K)] for g in range(PROMPTS)]
        mask = torch.zeros(PROMPTS, K, T, dtype=torch.bool)
        scores = torch.full((PROMPTS, K), torch.nan, dtype=torch.float64)
        for g, k, i in self._cells():
            n = len(found[i][3])
            mask[g, k, :n] = chosen_by_policy(found[i][3]) != 0
            scores[g, k] = found[i][4]
        with torch.no_grad():
            old = self.log_probs(T)
        valid = scores.isfinite()
        if values is not None:  # of rows, by the names that verl gives them
            values = self._placed(
                {(g, k): values[f"uid{g}_{k}_0"].double() for g, k, _ in self._cells()}, T
            )
        group = tpo.Groups(
            old, torch.where(valid, scores, 0.0), mask=mask, valid=valid, values=values
        )
        self.prepared, self.T, self.group = objective.prepare(group), T, group

    def _cells(self):
        return [
            (g, k, i) for g in range(PROMPTS) for k in range(K) if (i := self.at[g][k]) is not None
        ]

    def log_probs(self, T):
        """[B, K, T]"""
        cells = {}
        for g, k, i in self._cells():
            _, _, prompt, response, _ = self.found[i]
            logits = self.model(torch.cat([prompt, response])[None]).logits[0]
            log_p = logits.log_softmax(-1)[len(prompt) - 1 : -1]
            cells[g, k] = log_p.gather(-1, response[:, None])[:, 0]
        return self._placed(cells, T)

    def _placed(self, cells, T):
        """[B, K, T] of rows by their place."""
        zero = torch.zeros(T, dtype=torch.float64)
        padded = {at: torch.nn.functional.pad(x, (0, T - len(x))) for at, x in cells.items()}
        return torch.stack(
            [torch.stack([padded.get((g, k), zero) for k in range(K)]) for g in range(PROMPTS)]
        )

    def gradient(self, weights, groups, scale):
        """Of `scale` times the loss, by the log-probs of these groups only."""
        self.model.load_state_dict({k: w.double() for k, w in weights.items()})
        self.model.zero_grad()
        new = self.log_probs(self.T)
        own = torch.zeros(PROMPTS, 1, 1, dtype=torch.bool)
        own[groups] = True
        loss = self.objective.loss(torch.where(own, new, new.detach()), self.prepared)
        (scale * loss).backward()
        return {k: p.grad.clone() for k, p in self.model.named_parameters()}
