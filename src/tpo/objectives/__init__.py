"""The objectives and the names they are registered under; one `register` call for each name."""

from tpo.objectives.base import Objective, Traits, entry, list_objectives, objective, register
from tpo.objectives.baselines import OPO, OTB, optimal_baseline
from tpo.objectives.ce import CrossEntropy
from tpo.objectives.corrections import icepop, tis
from tpo.objectives.covariance import ClipCov, KLCov
from tpo.objectives.critics import explained_variance, value_loss
from tpo.objectives.dg import DG
from tpo.objectives.fipo import FIPO
from tpo.objectives.group_pg import GPG, GroupPG, MaxRL, PassK
from tpo.objectives.grpo import DAPO, GRPO, DrGRPO, LitePPO
from tpo.objectives.gspo import GMPO, GSPO, LUSPO, GSPOToken
from tpo.objectives.kl import k1, k2, k3
from tpo.objectives.likelihood import AWR, BOLT, GVPO, PMPO, REBEL
from tpo.objectives.lpo import LPO
from tpo.objectives.mpo import MPO, REPS, VMPO
from tpo.objectives.multi import GDPO, MTGRPO, task_logits_after
from tpo.objectives.off_policy import OAPL, OPMD, TOPR
from tpo.objectives.overlong import overlong_penalty
from tpo.objectives.ppo import MDPO, PPO, ImportanceWeighted, TRPOPenalty
from tpo.objectives.preferences import DPO, IPO, KTO
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
from tpo.objectives.trust_masks import DPPO, M2PO, OPSM
from tpo.objectives.vapo import VAPO

register("tpo", TPO, label="TPO")
register(
    "tpo_no_anchor",
    TPO,
    "TPO without p_old in its target: q = softmax(u/eta).",
    anchor=False,
    label="TPO no anchor",
)
register(
    "tpo_outcomes",
    TPO,
    "TPO with pooled ties: candidates with equal scores are fitted as one outcome.",
    ties="pooled",
    label="TPO outcomes",
)
register("lpo", LPO, label="LPO")
register(
    "lpo_reverse",
    LPO,
    "LPO under KL(P‖w*); on-policy it is an ordinary policy gradient.",
    divergence="reverse",
    label="LPO reverse",
)
register("lpo_js", LPO, "LPO under the Jensen-Shannon divergence.", divergence="js", label="LPO JS")
register(
    "lpo_alpha",
    LPO,
    "LPO under Amari's alpha divergence, between the two KLs.",
    divergence="alpha",
    label="LPO alpha",
)
register("mpo", MPO, label="MPO")
register("v_mpo", VMPO, label="V-MPO")
register("reps", REPS, label="REPS")
register("pmpo", PMPO, label="PMPO")
register("awr", AWR, label="AWR")
register("rebel", REBEL, label="REBEL")
register("ce", CrossEntropy, label="CE")
register("reinforce", Reinforce, label="REINFORCE")
register("pg_is", ImportanceWeighted, label="PG (IS)")
register("reinforce_pp", ReinforcePP, label="REINFORCE++")
register("remax", ReMax, label="ReMax")
register("rloo", RLOO, label="RLOO")
register("group_pg", GroupPG, label="Group PG")
register("a2c", A2C, label="A2C")
register("dg", DG, label="DG")
register("maxrl", MaxRL, label="MaxRL")
register("gdpo", GDPO, label="GDPO")
register("mt_grpo", MTGRPO, label="MT-GRPO")
register("trpo_penalty", TRPOPenalty, label="TRPO penalty")
register("mdpo", MDPO, label="MDPO")
register("ppo", PPO, label="PPO")
register("grpo", GRPO, label="GRPO")
register("grpo_no_kl", GRPO, "GRPO with beta = 0.", beta=0.0, label="GRPO no KL")
register(
    "grpo_masked",
    GRPO,
    "GRPO without zero-variance groups, KL and mean included.",
    drop_constant=True,
    label="GRPO masked",
)
register("dr_grpo", DrGRPO, label="Dr. GRPO")
register("dapo", DAPO, label="DAPO")
register("vapo", VAPO, label="VAPO")
register("gspo", GSPO, label="GSPO")
register("gspo_token", GSPOToken, label="GSPO token")
register("sapo", SAPO, label="SAPO")
register("cispo", CISPO, label="CISPO")
register("luspo", LUSPO, label="LUSPO")
register("gmpo", GMPO, label="GMPO")
register("vespo", VESPO, label="VESPO")
register("real", REAL, label="REAL")
register("dppo", DPPO, label="DPPO")
register(
    "dppo_kl",
    DPPO,
    "DPPO whose trust region is a KL instead of a change of probability.",
    divergence="kl",
    delta=0.05,
    label="DPPO KL",
)
register("opsm", OPSM, label="OPSM")
register("topr", TOPR, label="TOPR")
register("opmd", OPMD, label="OPMD")
register("oapl", OAPL, label="OAPL")
register("m2po", M2PO, label="M2PO")
register("gpg", GPG, label="GPG")
register("grpo_passk", PassK, label="Pass@k")
register("opo", OPO, label="OPO")
register("otb", OTB, label="OTB")
register("lite_ppo", LitePPO, label="Lite PPO")
register("fipo", FIPO, label="FIPO")
register("clip_cov", ClipCov, label="Clip-Cov")
register("kl_cov", KLCov, label="KL-Cov")
register("gvpo", GVPO, label="GVPO")
register("bolt", BOLT, label="BOLT")
register("dpo", DPO, label="DPO")
register("ipo", IPO, label="IPO")
register("kto", KTO, label="KTO")

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
