"""Log-probs of groups with each prompt computed once: one sequence per group, no padding between candidates.

    prompt | candidate 1 | candidate 2 | ... | candidate K

A token attends to the prompt and to its own candidate up to itself (see `attention`), and the positions of
every candidate continue those of the prompt. So each token sees the same as in a sequence of its own, and its
log-prob is the same. Log-probs of the whole vocabulary are computed for a slice of tokens at a time, and again
in the backward pass, so that those of all tokens are never in memory together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.utils.checkpoint import checkpoint

from tpo.llm.packed import attention
from tpo.llm.packed.attention import Layout

Tensor = torch.Tensor
TOKENS_PER_SLICE = 2048
"""Tokens whose log-probs of the whole vocabulary are in memory at a time."""


class Packed(NamedTuple):
    """G groups as one sequence each, [G, S], and where the M tokens of their candidates are."""

    ids: Tensor
    positions: Tensor
    layout: Layout
    predictors: Tensor
    """[M] where in [G·S] the token is that predicts each candidate's token: the one before it"""
    targets: Tensor
    """[M] where in [G·S] each candidate's token is"""
    origins: Tensor
    """[M] where in the completions, [n·C], each candidate's token comes from"""


def shared(prompts: Tensor, K: int) -> bool:
    """Whether rows [n, P] of prompts are groups of K equal ones."""
    n = len(prompts)
    if n % K:
        return False
    grouped = prompts.reshape(n // K, K, -1)
    return bool((grouped == grouped[:, :1]).all())


class Rows(NamedTuple):
    """Prompts and completions concatenated, [n, P + C], as TRL has them: whole groups with one prompt each."""

    ids: Tensor
    mask: Tensor
    C: int

    def log_probs(
        self, model: Any, K: int, temperature: float, rows_at_once: int | None, entropies: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Log-probs [n, C] and, if asked for, entropies; None of them otherwise.

        A forward pass has at most `rows_at_once` rows, all if that is None, and at least one whole group.
        """
        size = max(K, (rows_at_once or len(self.ids)) // K * K)
        found = []
        for i in range(0, len(self.ids), size):
            ids, mask = self.ids[i : i + size], self.mask[i : i + size]
            completions = ids[:, -self.C :]
            batch = packed(
                ids[:, : -self.C], mask[:, : -self.C], completions, mask[:, -self.C :], K
            )
            found.append(log_probs(model, batch, completions.shape, temperature, entropies))
        chosen, entropy = zip(*found, strict=True)
        return torch.cat(chosen), torch.cat(entropy) if entropies else None


def packed(
    prompts: Tensor, prompt_mask: Tensor, completions: Tensor, mask: Tensor, K: int
) -> Packed:
    """Pack rows of prompts [n, P] and completions [n, C], the K rows of a group next to each other."""
    n, C = completions.shape
    G, device = n // K, completions.device
    prompt, prompt_filled = prompts[::K], prompt_mask[::K].bool()
    length = prompt_filled.sum(-1, keepdim=True)
    ids = torch.cat([prompt, completions.reshape(G, K * C)], 1)
    filled = torch.cat([prompt_filled, mask.reshape(G, K * C).bool()], 1)
    within = torch.arange(C, device=device).repeat(K)
    positions = torch.cat([prompt_filled.cumsum(-1) - 1, length + within], 1).clamp(min=0)

    layout = Layout(length[:, 0], mask.reshape(G, K, C).sum(-1))
    order = torch.argsort(~filled, dim=1, stable=True)[:, : layout.S]
    ids, positions = ids.gather(1, order), positions.gather(1, order)
    targets = (~layout.no_candidate).flatten().nonzero()[:, 0]
    in_rows = layout.candidates.to_sequences[targets]
    row, t = in_rows // layout.C, in_rows % layout.C
    prompt_ends = (layout.S * torch.arange(G, device=device) + length[:, 0] - 1)[row // K]
    predictors = torch.where(t == 0, prompt_ends, targets - 1)
    return Packed(ids, positions, layout, predictors, targets, row * C + t)


def log_probs(
    model: Any, batch: Packed, shape: torch.Size, temperature: float, entropies: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Log-probs of completions of that shape [n, C], 0 where there is no token, and entropies if asked for."""
    attention.enable(model)
    # `attend` does not read the mask: it has four dimensions so that transformers makes none of its own
    mask = batch.layout.mask[:, None]
    hidden = model.get_decoder()(
        input_ids=batch.ids,
        attention_mask=mask,
        position_ids=batch.positions,
        use_cache=False,
        layout=batch.layout,
    ).last_hidden_state
    states = hidden.flatten(0, 1)[batch.predictors]
    targets = batch.ids.flatten()[batch.targets]
    head = model.get_output_embeddings()
    size = TOKENS_PER_SLICE
    found = [
        checkpoint(_of_slice, head, states[i : i + size], targets[i : i + size], temperature, entropies,
                   use_reentrant=False)
        for i in range(0, max(1, len(targets)), size)
    ]  # fmt: skip
    joined = [torch.cat(slices) for slices in zip(*found, strict=True)]
    places = (batch.origins,)
    placed = [x.new_zeros(shape.numel()).index_put(places, x).reshape(shape) for x in joined]
    return placed[0], placed[1] if entropies else None


def at_targets(logits: Tensor, targets: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """In float32 and at this temperature: log-probs [..., V] of the vocabulary, and [...] of the targets."""
    log_p = (logits.float() / temperature).log_softmax(-1)
    return log_p, log_p.gather(-1, targets[..., None])[..., 0]


def _of_slice(
    head: Any, states: Tensor, targets: Tensor, temperature: float, entropies: bool
) -> tuple[Tensor, ...]:
    """Log-probs [M] of targets from the hidden states [M, D] that predict them; entropies if asked for."""
    log_p, chosen = at_targets(head(states), targets, temperature)
    if not entropies:
        return (chosen,)
    with torch.no_grad():
        return chosen, -(log_p.exp() * log_p).sum(-1)
