"""One update with TPO: score a group, prepare the target once, fit it for several epochs."""

import torch

import tpo

torch.manual_seed(0)
prompts, candidates, tokens = 4, 8, 6
logits = torch.randn(prompts, candidates, tokens, 10, requires_grad=True)  # in place of a model
actions = torch.randint(10, (prompts, candidates, tokens, 1))
scores = (torch.rand(prompts, candidates) < 0.3).float()


def log_probs() -> torch.Tensor:
    return logits.log_softmax(-1).gather(-1, actions)[..., 0]


objective = tpo.objective("tpo", score="ratio")  # or "grpo", "lpo", ...: see tpo.list_objectives()
group = tpo.Groups(log_probs_old=log_probs(), scores=scores)
prepared = objective.prepare(group)  # the target q, frozen
optimizer = torch.optim.Adam([logits], lr=0.1)
for _ in range(20):
    loss = objective.loss(log_probs(), prepared)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

log_ratios = (log_probs().detach() - group.log_probs_old).sum(-1)
distance = tpo.diagnostics.kl(prepared.q, log_ratios).mean()
print(f"KL(q‖p) after 20 epochs: {distance:.4f}")
