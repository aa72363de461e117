"""KL to the reference inside the reward, as in RLHF: each token's reward is less beta times its log-ratio."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tpo.arrays import Array
from tpo.groups import Groups
from tpo.objectives.advantages import ADVANTAGES, PER_TOKEN, outcome_rewards, token_rewards
from tpo.objectives.returns import backward_recurrence


def kl_rewards(groups: Groups, beta: float) -> Array:
    r"""[B, K, T] the reward less beta·k1, with the score on the last token.

    .. math:: r_{it} = R_i\,1[t = |o_i|] - \beta \log\frac{\pi_{old}(o_{it})}{\pi_{ref}(o_{it})}

    The policy is the rollout snapshot: the KL is a part of the reward, and no gradient flows through it.
    """
    return outcome_rewards(groups) - beta * (groups.log_probs_old - groups.reference)


def to_go(groups: Groups, rewards: Array) -> Array:
    """[B, K, T] the sum of the rewards from each token on."""
    return backward_recurrence(groups.xp, rewards, groups.xp.ones_like(rewards))


def with_kl_in_reward(groups: Groups, beta: float, advantage: str) -> Groups:
    """The groups with the KL in what that advantage is made of.

    An advantage per candidate takes the score less beta times the sum of log-ratios. `gae` takes `kl_rewards`;
    any other advantage per token takes that token's reward less the KL from there on.
    """
    if not beta:
        return groups
    k1 = groups.log_probs_old - groups.reference
    if advantage == "gae":
        return replace(groups, token_scores=kl_rewards(groups, beta))
    if advantage in PER_TOKEN:
        return replace(groups, token_scores=token_rewards(groups) - beta * to_go(groups, k1))
    return replace(groups, scores=groups.total - beta * groups.xp.sum(k1, axis=-1))


def less_kl(advantage: str, beta: float) -> Callable[[Groups], Array]:
    """The advantage of that name, [B, K] or [B, K, T], of rewards less the KL."""
    return lambda groups: ADVANTAGES[advantage](with_kl_in_reward(groups, beta, advantage))
