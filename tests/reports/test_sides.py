"""What both sides of the kept comparisons were given, counted from their recipes."""

import re

from support import ROOT
from tpo.reports import comparisons, publish
from tpo.reports.markdown.sides import Side, sides

EVIDENCE = ROOT / "docs/evidence"


def test_a_side_by_hand():
    methods = [
        "tpo:epochs=4:learning_rate=6e-06",
        "tpo:epochs=4:learning_rate=1.2e-05",
        "tpo:epochs=4:learning_rate=1.2e-05:max_grad_norm=0.0",
        "tpo:epochs=4:eta=0.5:learning_rate=1.2e-05",
        "tpo:epochs=4",
    ]
    shared = {"learning_rate": 1e-5, "max_grad_norm": 1.0}
    assert Side.of(methods, shared) == Side(settings=5, variants=2, rates=3, clipped=4)
    assert Side.of(["grpo"], {"learning_rate": 1e-5, "max_grad_norm": 0}).clipped == 0


def test_every_setting_of_every_kept_comparison_is_on_a_side():
    for name, summary in comparisons.read(EVIDENCE).items():
        own, other = sides(summary)
        assert own.settings + other.settings == len(summary["methods"]), name
        labels = [one["method"] for one in summary["methods"]]
        unclipped = sum("max_grad_norm=0.0" in label.split(":") for label in labels)
        if summary["settings"].get("max_grad_norm", 1.0) > 0:
            assert own.clipped + other.clipped == len(labels) - unclipped, name


def test_what_the_front_page_says_of_unequal_options():
    """GRPO's side was clipped in every planned setting; TPO's never is on its side of the second and third plan."""
    compared, planned = comparisons.read(EVIDENCE), publish._planned(EVIDENCE)
    for name, note in planned.items():
        own, other = sides(compared[name])
        assert other.clipped == other.settings, name
        assert (own.clipped < own.settings) == (note.own_side == "max_grad_norm=0.0"), name
    page = (ROOT / "docs/research/index.md").read_text()
    (row,) = re.findall(
        r"^\| \[Sorting two to six numbers, TPO unclipped\].* 6 \|$", page, re.MULTILINE
    )
    assert "| 49.4, 39.2 |" in row
    assert "| 0.659 | 6 |" in row
