"""The page for users of TRL: its options are the trainer's, all of them, and what it calls refused is refused."""

import re
from dataclasses import fields

import pytest

from support import ROOT

pytest.importorskip("trl")

from trl import GRPOConfig

from tpo.llm import TargetPolicyConfig

PAGE = (ROOT / "docs/guides/trl.md").read_text(encoding="utf-8")
OF_TRL = {f.name: f.default for f in fields(GRPOConfig)}
OWN = {f.name: f.default for f in fields(TargetPolicyConfig)}
REFUSED = {
    "off_policy_mask_threshold": 0.1,
    "top_entropy_quantile": 0.5,
    "entropy_coef": 0.1,
    "use_adaptive_entropy": True,
    "vllm_importance_sampling_mode": "token_mask",
}
"""Options that the page calls refused, with a value that is not TRL's default."""


def table(title: str) -> list[list[str]]:
    """The rows of a table: the cells of each, without the heading."""
    found = re.search(rf"\*\*{re.escape(title)}.*?\*\*\n\n(.*?)\n\n", PAGE, flags=re.DOTALL)
    assert found
    return [line.strip("| ").split(" | ") for line in found[1].splitlines()][2:]


def names(cell: str) -> list[str]:
    """The options that a cell names."""
    return re.findall(r"`(\w+)(?:=.*?)?`", cell)


def test_the_table_of_defaults_has_every_default_that_differs() -> None:
    listed = {name for row in table("Defaults") for cell in row for name in names(cell)}
    assert {name for name in OF_TRL if OWN[name] != OF_TRL[name]} <= listed


def test_what_the_page_calls_refused_is_refused() -> None:
    rows = [row for row in table("Options of TRL's loss") if "refused" in row[1]]
    listed = {name for row in rows for name in names(row[0])} & OF_TRL.keys()
    assert listed - {"parallelism_config"} == REFUSED.keys()
    for name, value in REFUSED.items():
        with pytest.raises(ValueError, match=name):
            TargetPolicyConfig("out", use_cpu=True, bf16=False, **{name: value})
