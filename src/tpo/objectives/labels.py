"""Display names of objectives, for tables, figures and pages."""

from __future__ import annotations

from tpo.user_code import class_name

LABELS = {
    "tpo": "TPO",
    "tpo_no_anchor": "TPO no anchor",
    "tpo_outcomes": "TPO outcomes",
    "lpo": "LPO",
    "lpo_reverse": "LPO reverse",
    "lpo_js": "LPO JS",
    "lpo_alpha": "LPO alpha",
    "mpo": "MPO",
    "v_mpo": "V-MPO",
    "reps": "REPS",
    "pmpo": "PMPO",
    "awr": "AWR",
    "rebel": "REBEL",
    "ce": "CE",
    "reinforce": "REINFORCE",
    "remax": "ReMax",
    "rloo": "RLOO",
    "group_pg": "Group PG",
    "a2c": "A2C",
    "dg": "DG",
    "maxrl": "MaxRL",
    "gdpo": "GDPO",
    "mt_grpo": "MT-GRPO",
    "pg_is": "PG (IS)",
    "reinforce_pp": "REINFORCE++",
    "trpo_penalty": "TRPO penalty",
    "mdpo": "MDPO",
    "ppo": "PPO",
    "grpo": "GRPO",
    "grpo_no_kl": "GRPO no KL",
    "grpo_masked": "GRPO masked",
    "dr_grpo": "Dr. GRPO",
    "dapo": "DAPO",
    "vapo": "VAPO",
    "gspo": "GSPO",
    "gspo_token": "GSPO token",
    "sapo": "SAPO",
    "cispo": "CISPO",
    "luspo": "LUSPO",
    "gmpo": "GMPO",
    "vespo": "VESPO",
    "real": "REAL",
    "dppo": "DPPO",
    "dppo_kl": "DPPO KL",
    "opsm": "OPSM",
    "topr": "TOPR",
    "opmd": "OPMD",
    "oapl": "OAPL",
}


def label(name: str) -> str:
    """`dr_grpo` -> `Dr. GRPO`; other names stay as they are; `FILE.py:CLASS` -> `CLASS`."""
    return LABELS.get(name) or class_name(name)
