"""`Critic`: how a value network is trained beside a policy. Plain data and formulas, no JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from tpo.arrays import Array
from tpo.lab.names import OPTIMISERS
from tpo.objectives import gae, monte_carlo, n_step, retrace, vtrace
from tpo.objectives.base import Objective
from tpo.objectives.vapo import VAPO
from tpo.options import COUNT, FRACTION, POSITIVE, WHOLE, check, one_of, option

RETURNS = ("lambda", "monte_carlo", "n_step", "vtrace", "retrace")
"""What the values are fitted to."""

FOR_CRITICS = tuple(name for name in OPTIMISERS if name != "trpo")
"""TRPO's step is bounded by the KL of a policy, which values do not have."""

PRETRAIN = 50
"""VAPO's episodes of value pretraining; its paper pretrains until loss and explained variance are good."""


class Estimates(NamedTuple):
    """What the critic says of a batch of episodes, all [B, K, T]."""

    values: Array
    """V of the state before each token."""
    action_values: Array | None = None
    """Q of each sampled token; only `retrace` has it, and there V is the mean of Q under the policy."""
    log_ratios: Array | None = None
    """log pi - log mu of each sampled token, mu the actor's; None if actor and learner are one."""


@dataclass(frozen=True)
class Critic:
    """A value network beside the policy: the same architecture, with parameters of its own, and one output.

    Each episode the objective gets its values, and then it takes `epochs` steps on `value_loss` over the same
    batch. Targets are computed once per batch.
    """

    returns: str = option("lambda", one_of(*RETURNS), "what the values are fitted to")
    lam: float = option(0.95, FRACTION, "λ of lambda and retrace: 1 is Monte Carlo, 0 one step")
    n: int = option(1, COUNT, "rewards before the value that n_step continues with")
    gamma: float = option(1.0, FRACTION, "discount")
    epochs: int = option(4, COUNT, "critic steps per batch")
    learning_rate: float = option(1e-3, POSITIVE, "of the critic")
    optimiser: str = option("adam", one_of(*FOR_CRITICS), "of the critic")
    pretrain: int = option(0, WHOLE, "episodes in which only the critic learns")

    def __post_init__(self) -> None:
        check(self, "critic: ")

    @property
    def per_action(self) -> bool:
        """Whether it has one output per action instead of one per state."""
        return self.returns == "retrace"

    def targets(self, rewards: Array, found: Estimates, mask: Array | None = None) -> Array:
        """[B, K, T] what V of each state is fitted to; for `retrace` Q of each sampled token.

        `vtrace` and `retrace` correct for an actor that lags. The others are targets of the actor's own policy.
        """
        values, gamma = found.values, self.gamma
        if self.returns == "monte_carlo":
            return monte_carlo(rewards, gamma, mask)
        if self.returns == "lambda":
            return values + gae(rewards, values, gamma, self.lam, mask)
        if self.returns == "n_step":
            return values + n_step(rewards, values, self.n, gamma, mask)
        log_ratios = 0 * values if found.log_ratios is None else found.log_ratios
        if self.returns == "vtrace":
            return vtrace(log_ratios, rewards, values, gamma, mask=mask).targets
        if found.action_values is None:
            raise ValueError("returns is 'retrace', which needs action_values in Estimates")
        return retrace(log_ratios, rewards, found.action_values, values, gamma, self.lam, mask)


def critic_for(objective: Objective, **options: Any) -> Critic | None:
    """The critic of an objective, with these options; None for an objective that needs no values.

    VAPO's is fitted to Monte Carlo returns and pretrained, as its paper says. Every other is fitted to
    λ-returns, with the objective's own γ and λ where it has them.
    """
    if not objective.uses_values:
        return None
    own = {name: getattr(objective, name) for name in ("gamma", "lam") if hasattr(objective, name)}
    if isinstance(objective, VAPO):
        own["pretrain"] = PRETRAIN
    return Critic(**{"returns": objective.critic_returns, **own, **options})
