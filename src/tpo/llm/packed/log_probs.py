"""Log-probs of a group with its prompt read once: one sequence per group, no padding between candidates.

    prompt | candidate 1 | candidate 2 | ... | candidate K

A token sees the prompt and its own candidate up to itself (see `attention`); positions go on from the
prompt for every candidate. So each token meets what it meets in a sequence of its own, and the numbers are the
same. Probabilities of the vocabulary are made for a slice of tokens at a time, and made again on the way back,
so that they never lie in memory all at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.utils.checkpoint import checkpoint

from tpo.llm.packed import attention
from tpo.llm.packed.attention import Layout

Tensor = torch.Tensor
SLICE = 2048
"""Tokens whose distribution over the vocabulary is held at a time."""


class Packed(NamedTuple):
    """G groups as one sequence each, [G, S], and where their candidates' tokens are."""

    ids: Tensor
    positions: Tensor
    layout: Layout
    before: Tensor
    """[M] for each candidate token, where in [G·S] the token stands that predicts it"""
    at: Tensor
    """[M] where in [G·S] it stands itself"""
    to: Tensor
    """[M] where in [n·C] it came from"""


def shared(prompts: Tensor, K: int) -> bool:
    """Whether rows [n, P] are groups of K with the same prompt."""
    n = len(prompts)
    if n % K:
        return False
    grouped = prompts.reshape(n // K, K, -1)
    return bool((grouped == grouped[:, :1]).all())


class Rows(NamedTuple):
    """Prompts and completions side by side [n, P + C], as TRL has them; whole groups of one prompt each."""

    ids: Tensor
    mask: Tensor
    C: int

    def log_probs(
        self, model: Any, K: int, temperature: float, at_once: int | None, entropies: bool
    ) -> tuple[Tensor, Tensor | None]:
        """[n, C] log-probs and, if asked for, entropies, so many rows at once (all), in whole groups."""
        size = max(K, (at_once or len(self.ids)) // K * K)
        found = []
        for i in range(0, len(self.ids), size):
            ids, mask = self.ids[i : i + size], self.mask[i : i + size]
            own = ids[:, -self.C :]
            batch = packed(ids[:, : -self.C], mask[:, : -self.C], own, mask[:, -self.C :], K)
            found.append(log_probs(model, batch, own.shape, temperature, entropies))
        chosen, entropy = zip(*found, strict=True)
        return torch.cat(chosen), torch.cat(entropy) if entropies else None


def packed(
    prompts: Tensor, prompt_mask: Tensor, completions: Tensor, mask: Tensor, K: int
) -> Packed:
    """Pack rows of prompts [n, P] and completions [n, C], whole groups side by side."""
    n, C = completions.shape
    G, device = n // K, completions.device
    first, first_mask = prompts[::K], prompt_mask[::K].bool()
    length = first_mask.sum(-1, keepdim=True)
    ids = torch.cat([first, completions.reshape(G, K * C)], 1)
    filled = torch.cat([first_mask, mask.reshape(G, K * C).bool()], 1)
    within = torch.arange(C, device=device).repeat(K)
    positions = torch.cat([first_mask.cumsum(-1) - 1, length + within], 1).clamp(min=0)

    layout = Layout(length[:, 0], mask.reshape(G, K, C).sum(-1))
    order = torch.argsort(~filled, dim=1, stable=True)[:, : layout.S]
    ids, positions = ids.gather(1, order), positions.gather(1, order)
    at = (~layout.not_own).flatten().nonzero()[:, 0]
    went = layout.in_rows[at]
    row, t = went // layout.C, went % layout.C
    prompt_end = (layout.S * torch.arange(G, device=device) + length[:, 0] - 1)[row // K]
    before = torch.where(t == 0, prompt_end, at - 1)
    return Packed(ids, positions, layout, before, at, row * C + t)


def log_probs(
    model: Any, batch: Packed, shape: torch.Size, temperature: float, entropies: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Log-probs of completions of that shape [n, C], 0 where there is no token, and entropies if asked for."""
    attention.use(model)
    unread = batch.layout.seen[:, None]  # in the shape of a mask, so that transformers makes none
    hidden = model.get_decoder()(
        input_ids=batch.ids,
        attention_mask=unread,
        position_ids=batch.positions,
        use_cache=False,
        groups=batch.layout,
    ).last_hidden_state
    states = hidden.flatten(0, 1)[batch.before]
    targets = batch.ids.flatten()[batch.at]
    head = model.get_output_embeddings()
    found = [
        checkpoint(_scored, head, states[i : i + SLICE], targets[i : i + SLICE], temperature, entropies,
                   use_reentrant=False)
        for i in range(0, max(1, len(targets)), SLICE)
    ]  # fmt: skip
    scores = [torch.cat(parts) for parts in zip(*found, strict=True)]
    size = shape.numel()
    placed = [x.new_zeros(size).index_put((batch.to,), x).reshape(shape) for x in scores]
    return placed[0], placed[1] if entropies else None


def at_targets(logits: Tensor, targets: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probs [..., V] at this temperature in float32, and those of the targets [...]."""
    log_p = (logits.float() / temperature).log_softmax(-1)
    return log_p, log_p.gather(-1, targets[..., None])[..., 0]


def _scored(
    head: Any, states: Tensor, targets: Tensor, temperature: float, entropies: bool
) -> tuple[Tensor, ...]:
    """Log-probs of the targets [M] behind these states [M, D], and the entropies of what could have come."""
    log_p, chosen = at_targets(head(states), targets, temperature)
    if not entropies:
        return (chosen,)
    with torch.no_grad():
        return chosen, -(log_p.exp() * log_p).sum(-1)
