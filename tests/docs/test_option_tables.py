"""Tables of options in the guides: those that the build makes hold every option, those written by hand are right."""

import re
import sys

import pytest

from support import ROOT
from tpo.llm.run_options import TrainerOptions
from tpo.llm.runs.recipe import KINDS, Recipe
from tpo.objectives import TPO
from tpo.options import declared, default_text

pytest.importorskip("sphinx")
sys.path.insert(0, str(ROOT / "docs"))
try:
    import _cli
finally:
    sys.path.pop(0)

GUIDES = ROOT / "docs/guides"


@pytest.mark.parametrize("name", ["train", "trl", "verl"])
def test_each_guide_has_its_table(name: str) -> None:
    assert f"```{{options}} {name}\n```" in (GUIDES / f"{name}.md").read_text(encoding="utf-8")
    nodes = [str(part) for title, rows in _cli.tables(name) for part in _cli._table(title, rows)]
    shown = "".join(nodes)
    for _, rows in _cli.tables(name):
        assert all(f"<literal>{written}</literal>" in shown for written, _, _ in rows)


def test_tables_hold_every_option() -> None:
    def listed(name: str) -> list[str]:
        return [written for _, rows in _cli.tables(name) for written, _, _ in rows]

    assert {_cli.flag(name) for name in KINDS} < set(listed("train"))
    assert "--tune-batches" in listed("train")
    assert {"drop_truncated_completions", "eta", "success", "weight_dithering"} < set(listed("trl"))
    assert "+trainer.v1.tpo.skip_zero_gradient" in listed("verl")
    assert "+trainer.v1.tpo.weight_dithering" not in listed("verl")


def test_trl_table_is_what_its_config_adds() -> None:
    pytest.importorskip("trl")
    from dataclasses import fields

    from trl import GRPOConfig

    from tpo.llm import TargetPolicyConfig

    own = {f.name for f in fields(TargetPolicyConfig)} - {f.name for f in fields(GRPOConfig)}
    ((_, rows),) = _cli.tables("trl")
    assert (
        own <= {written for written, _, _ in rows} <= {f.name for f in fields(TargetPolicyConfig)}
    )


def test_defaults_that_the_guide_to_settings_names() -> None:
    page = (GUIDES / "settings.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(?:--)?([\w-]+)` \| `?([\w.-]+)", page, flags=re.MULTILINE)
    assert len(rows) == 11
    of = {**declared(TPO), **declared(TrainerOptions), **declared(Recipe)}
    of["eta"] = declared(TPO)["eta"]  # in a recipe None, the objective's own
    spelled = {"True": "on", "False": "off", "ratio for tpo": "ratio"}
    for name, default in rows:
        text = default_text(of[name.replace("-", "_")])
        assert default == spelled.get(text, text), name
