"""The objectives and the names they are registered under; one `register` call for each name."""

from tpo.objectives.base import Objective, Traits, entry, list_objectives, objective, register
from tpo.objectives.baselines import optimal_baseline
from tpo.objectives.ce import CrossEntropy
from tpo.objectives.corrections import icepop, tis
from tpo.objectives.critics import explained_variance, value_loss
from tpo.objectives.dg import DG
from tpo.objectives.group_pg import GroupPG, MaxRL
from tpo.objectives.grpo import DAPO, GRPO, DrGRPO
from tpo.objectives.gspo import GMPO, GSPO, LUSPO, GSPOToken
from tpo.objectives.kl import k1, k2, k3
from tpo.objectives.likelihood import AWR, PMPO, REBEL
from tpo.objectives.lpo import LPO
from tpo.objectives.mpo import MPO, REPS, VMPO
from tpo.objectives.multi import GDPO, MTGRPO, task_logits_after
from tpo.objectives.off_policy import OAPL, OPMD, TOPR
from tpo.objectives.overlong import overlong_penalty
from tpo.objectives.ppo import MDPO, PPO, ImportanceWeighted, TRPOPenalty
from tpo.objectives.real import REAL
from tpo.objectives.reinforce import A2C, RLOO, Reinforce, ReMax
from tpo.objectives.reinforce_pp import ReinforcePP
from tpo.objectives.returns import (
    gae,
    length_adaptive_lambda,
    monte_carlo,
    n_step,
    retrace,
    vtrace,
)
from tpo.objectives.snapshot import snapshot_advantages
from tpo.objectives.soft_clip import CISPO, SAPO, VESPO
from tpo.objectives.target_matching import coefficients, loss, target
from tpo.objectives.tpo import TPO
from tpo.objectives.trust_masks import DPPO, OPSM
from tpo.objectives.vapo import VAPO

register("tpo", TPO)
register("tpo_no_anchor", TPO, "TPO without p_old in its target: q = softmax(u/eta).", anchor=False)
register(
    "tpo_outcomes",
    TPO,
    "TPO with pooled ties: candidates with equal scores are fitted as one outcome.",
    ties="pooled",
)
register("lpo", LPO)
register(
    "lpo_reverse",
    LPO,
    "LPO under KL(P‖w*); on-policy it is an ordinary policy gradient.",
    divergence="reverse",
)
register("lpo_js", LPO, "LPO under the Jensen-Shannon divergence.", divergence="js")
register(
    "lpo_alpha", LPO, "LPO under Amari's alpha divergence, between the two KLs.", divergence="alpha"
)
register("mpo", MPO)
register("v_mpo", VMPO)
register("reps", REPS)
register("pmpo", PMPO)
register("awr", AWR)
register("rebel", REBEL)
register("ce", CrossEntropy)
register("reinforce", Reinforce)
register("pg_is", ImportanceWeighted)
register("reinforce_pp", ReinforcePP)
register("remax", ReMax)
register("rloo", RLOO)
register("group_pg", GroupPG)
register("a2c", A2C)
register("dg", DG)
register("maxrl", MaxRL)
register("gdpo", GDPO)
register("mt_grpo", MTGRPO)
register("trpo_penalty", TRPOPenalty)
register("mdpo", MDPO)
register("ppo", PPO)
register("grpo", GRPO)
register("grpo_no_kl", GRPO, "GRPO with beta = 0.", beta=0.0)
register(
    "grpo_masked",
    GRPO,
    "GRPO without zero-variance groups, KL and mean included.",
    drop_constant=True,
)
register("dr_grpo", DrGRPO)
register("dapo", DAPO)
register("vapo", VAPO)
register("gspo", GSPO)
register("gspo_token", GSPOToken)
register("sapo", SAPO)
register("cispo", CISPO)
register("luspo", LUSPO)
register("gmpo", GMPO)
register("vespo", VESPO)
register("real", REAL)
register("dppo", DPPO)
register(
    "dppo_kl",
    DPPO,
    "DPPO whose trust region is a KL instead of a change of probability.",
    divergence="kl",
    delta=0.05,
)
register("opsm", OPSM)
register("topr", TOPR)
register("opmd", OPMD)
register("oapl", OAPL)

__all__ = [
    "Objective",
    "Traits",
    "coefficients",
    "entry",
    "explained_variance",
    "gae",
    "icepop",
    "k1",
    "k2",
    "k3",
    "length_adaptive_lambda",
    "list_objectives",
    "loss",
    "monte_carlo",
    "n_step",
    "objective",
    "optimal_baseline",
    "overlong_penalty",
    "register",
    "retrace",
    "snapshot_advantages",
    "target",
    "task_logits_after",
    "tis",
    "value_loss",
    "vtrace",
]
