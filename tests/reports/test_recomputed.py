"""Numbers of kept comparisons are computed again from their seeds: one altered digit is noticed."""

import copy
import json

import numpy as np
import pytest

from support import ROOT
from tpo.reports import comparisons
from tpo.reports.comparisons import recomputed, recomputed_row

LLM = ROOT / "docs/evidence/llm"


def test_the_statistics_of_a_row_by_hand():
    given = {"method": "tpo", "metric": "x", "mean": 0, "median": 0, "iqm": 0, "n": 0, "iqm_low": 0}
    found = recomputed_row({**given, "values": [1.0, 2.0, 4.0, 9.0]})
    assert (found["mean"], found["median"], found["iqm"], found["n"]) == (4, 3, 3, 4)
    assert 1 <= found["iqm_low"] < 3
    assert "iqm_high" not in found
    alone = recomputed_row({**given, "values": [5.0]})
    assert (alone["mean"], alone["iqm_low"]) == (5, None)
    assert recomputed_row({**given, "values": []}) == {**given, "values": []}


def test_every_committed_comparison_is_what_its_seeds_give():
    files = comparisons.checked(ROOT / "docs/evidence")
    assert len(files) == len(list(LLM.glob("*.json"))) > 40
    text = comparisons.text
    assert [path.name for path, one in files.items() if path.read_text() != text(one)] == []


def altered(x):
    """x with its last significant digit changed by one."""
    digits = f"{x:.5g}"
    exponent = len(digits.partition(".")[2])
    return round(x + 10.0**-exponent, exponent)


@pytest.fixture(scope="module")
def kept():
    return json.loads((LLM / "smollm2_mixed_uncut.json").read_text())


@pytest.mark.parametrize("name", ["mean", "median", "iqm", "iqm_low", "iqm_high"])
def test_one_altered_digit_of_a_statistic_is_noticed(kept, name):
    for i, one in enumerate(kept["table"]["rows"]):
        if one[name] is None:
            continue
        damaged = copy.deepcopy(kept["table"])
        damaged["rows"][i][name] = altered(one[name])
        assert recomputed_row(damaged["rows"][i])[name] == one[name] != damaged["rows"][i][name]


def test_one_altered_digit_of_a_curve_is_noticed(kept):
    for name in ("mean", "median", "se"):
        damaged = copy.deepcopy(kept)
        curve = damaged["panels"][0]["series"][1][name]
        curve[2] = altered(curve[2])
        assert recomputed(damaged) == kept != damaged


def noticed(damaged, kept):
    """An error, or statistics that are not those of the file."""
    assert damaged != kept
    try:
        return recomputed(damaged) != damaged
    except ValueError:
        return True


FINAL = ("final sampled accuracy %", "final accuracy %", "pass@16 %")


def test_one_altered_digit_of_a_seeds_accuracy_is_noticed(kept):
    for i, one in enumerate(kept["table"]["rows"]):
        if one["metric"] in FINAL:
            damaged = copy.deepcopy(kept)
            damaged["table"]["rows"][i]["values"][0] = altered(one["values"][0])
            assert noticed(damaged, kept)
    damaged = copy.deepcopy(kept)
    seeds = damaged["panels"][0]["series"][0]["seeds"]
    seeds[0][-1] = altered(seeds[0][-1])
    assert noticed(damaged, kept)


def test_a_larger_change_of_a_seeds_accuracy_is_an_error(kept):
    damaged = copy.deepcopy(kept)
    damaged["table"]["rows"][1]["values"][0] += 0.1
    with pytest.raises(ValueError, match="its curves end at"):
        recomputed(damaged)


def test_a_damaged_file_is_named(tmp_path, kept):
    damaged = copy.deepcopy(kept)
    damaged["table"]["rows"][0]["values"] = np.zeros(6).tolist()
    (tmp_path / "llm").mkdir()
    (tmp_path / "llm/sums.json").write_text(json.dumps(damaged))
    with pytest.raises(ValueError, match=r"sums.json is damaged \(ValueError: tpo"):
        comparisons.checked(tmp_path)
