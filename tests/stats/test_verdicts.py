"""Verdict rules on results made by hand."""

import numpy as np
import pytest

from tpo.stats.verdicts import Claim, MethodResult, verdict


def result(method, values, done=True, **coords):
    return MethodResult(
        coords, method, method.upper(), done, lambda metric: np.asarray(values, float)
    )


LOW = [0.01, 0.012, 0.014]
HIGH = [0.8, 0.82, 0.84]


def status(claim, *results):
    return verdict(claim, results)["status"]


def test_lower_on_every_seed_holds_and_higher_does_not():
    claim = Claim("TPO lowest", "tpo")
    assert status(claim, result("tpo", LOW), result("grpo", HIGH)) == "holds"
    assert status(claim, result("tpo", HIGH), result("grpo", LOW)) == "does not hold"


def test_seeds_that_overlap_are_undecided():
    claim = Claim("TPO lowest", "tpo")
    mixed = [0.0, 0.9, 0.0]
    found = verdict(claim, [result("tpo", mixed), result("grpo", [0.9, 0.0, 0.9])])
    assert found["status"] == "undecided"
    assert "within the noise" in found["detail"]


def test_a_wide_interval_is_undecided_unless_six_seeds_agree():
    claim = Claim("TPO lowest", "tpo")
    far_out = [0.03, 0.04, 0.9, 0.05, 0.06, 0.8]
    for n, expected in ((3, "undecided"), (5, "undecided"), (6, "holds")):
        both = result("tpo", [0.02] * n), result("grpo", far_out[:n])
        assert status(claim, *both) == expected
    assert status(claim, result("tpo", far_out), result("grpo", [0.02] * 6)) == "does not hold"


@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_the_lowest_may_be_shared_by_two_within_a_twentieth_at_any_scale(scale):
    def of(tpo, grpo, metric="end"):
        left, right = (scale * np.array(x) for x in (tpo, grpo))
        return status(Claim("c", "tpo", metric=metric), result("tpo", left), result("grpo", right))

    grpo = [0.5, 0.5, 0.5, 0.5]
    assert of([0.51, 0.49, 0.51, 0.49], grpo) == "holds"  # -.01 to .01, a twentieth is .025
    assert of([0.51, 0.49, 0.51, 0.49], grpo, "steps") == "undecided"  # level is not first
    assert of([0.6, 0.4, 0.6, 0.4], grpo) == "undecided"  # -.1 to .1
    assert of([0.51, 0.51, 0.52, 0.52], grpo) == "does not hold"  # above on every seed
    assert of([0.49, 0.49, 0.48, 0.48], grpo) == "holds"
    assert of([0, 0, 0, 0], [0, 0, 0, 0]) == "holds"


def test_seeds_are_compared_one_by_one():
    # seeds differ by up to .8, the methods by .01 on each seed
    hard = np.array([0.1, 0.5, 0.9])
    assert status(Claim("c", "tpo"), result("tpo", hard - 0.01), result("grpo", hard)) == "holds"


def test_a_seed_without_a_number_counts_on_neither_side():
    tpo, grpo = [0.1, np.nan, 0.1, 0.1], [0.2, 0.0, 0.2, np.nan]
    found = verdict(Claim("c", "tpo"), [result("tpo", tpo), result("grpo", grpo)])
    assert "n = 2" in found["detail"]


def test_two_seeds_are_undecided():
    found = verdict(Claim("c", "tpo"), [result("tpo", LOW[:2]), result("grpo", HIGH[:2])])
    assert found["status"] == "undecided"
    assert "fewer than 3 seeds" in found["detail"]


def test_an_unfinished_run_is_undecided():
    claim = Claim("c", "tpo")
    assert status(claim, result("tpo", LOW), result("grpo", HIGH, done=False)) == "undecided"


def test_one_setting_that_fails_refutes_the_claim():
    claim = Claim("c", "tpo")
    low, high = [*LOW, 0.011], [*HIGH, 0.81]
    results = [
        result("tpo", low, H=7), result("grpo", high, H=7),
        result("tpo", high, H=8), result("grpo", low, H=8),
    ]  # fmt: skip
    found = verdict(claim, results)
    assert found["status"] == "does not hold"
    assert "H = 8" in found["detail"]
    assert "H = 7" not in found["detail"]


def test_settings_are_compared_with_themselves_only():
    claim = Claim("c", "tpo")
    results = [
        result("tpo", HIGH, H=8), result("grpo", [1.0, 1.0, 1.0], H=8), result("grpo", LOW, H=7),
    ]  # fmt: skip
    assert status(claim, *results) == "holds"


def test_than_and_where_choose():
    results = [
        result("tpo", [0.3, 0.3, 0.3], H=7), result("grpo", HIGH, H=7), result("ppo", LOW, H=7),
    ]  # fmt: skip
    assert status(Claim("c", "tpo", than=("grpo",)), *results) == "holds"
    assert status(Claim("c", "tpo", where={"H": 9}), *results) == "undecided"


def test_versus_compares_a_method_with_itself_elsewhere():
    one, four = result("dg", LOW, epochs=1), result("dg", HIGH, epochs=4)
    claim = Claim("c", "dg", where={"epochs": 1}, versus={"epochs": 4})
    assert status(claim, one, four) == "holds"
    assert "epochs = 4" in verdict(claim, [one, four])["detail"]


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [("below", 0.1, "holds"), ("below", 0.005, "does not hold"), ("below", 0.012, "undecided"),
     ("above", 0.005, "holds"), ("above", 0.1, "does not hold")],
)  # fmt: skip
def test_against_a_number(rule, value, expected):
    low = result("tpo", [*LOW, 0.011, 0.013])
    assert status(Claim("c", "tpo", rule=rule, value=value), low) == expected


def test_failing_seeds_do_not_exclude_that_others_succeed():
    claim = Claim("fails", "pg", rule="above", value=0.95)
    failing = result("pg", [1.0] * 20)
    assert status(claim, failing) == "holds"
    found = verdict(claim, [failing, result("tpo", [0.0] * 19 + [1.0])])
    assert found["status"] == "undecided"
    assert "100% (median 100%), mean within 83" in found["detail"]  # 0.025^(1/20) = .83


def test_a_claim_is_refuted_by_one_clear_comparison_but_not_by_one_of_many():
    rng = np.random.default_rng(0)
    grpo = [rng.normal(0.5, 0.1, 10) for _ in range(32)]
    tpo = [values - rng.normal(0.01, 0.05, 10) for values in grpo]
    tpo[7] = grpo[7] + (rng.permutation(10) - 2) / 100

    results = [
        result(name, x, H=i)
        for name, runs in (("tpo", tpo), ("grpo", grpo))
        for i, x in enumerate(runs)
    ]
    claim = Claim("c", "tpo", where={"H": 7})
    assert status(claim, *results) == "does not hold"
    many = verdict(Claim("c", "tpo"), results)
    assert many["status"] == "undecided"
    assert "not significant among 32 comparisons" in many["reasons"][0]


def test_effect_and_power_are_told_per_rival():
    results = [
        result("tpo", [0.1, 0.2, 0.1], H=7), result("grpo", [0.2, 0.4, 0.2], H=7),
        result("tpo", [0.1, 0.1, 0.2], H=8), result("grpo", [0.2, 0.2, 0.4], H=8),
    ]  # fmt: skip
    found = verdict(Claim("c", "tpo"), results)
    # per setting -.1, -.2, -.1 in some order, root mean square .1414: seeds -.707, -1.061, -1.061
    (against,) = found["against"]
    assert (against["rival"], against["hold"], against["settings"]) == ("GRPO", 0, 2)
    numbers = [against[key] for key in ("effect", "low", "high", "p")]
    assert numbers == pytest.approx([-0.943, -1.0, -0.436, 2 / 4**3], abs=1e-3)
    assert found["detail"].startswith(
        "0 of 2 comparisons hold. One that does not: H = 7: TPO 13.3%"
    )
    assert [reason[:6] for reason in found["reasons"]] == ["H = 7:", "H = 8:"]
    assert found["reasons"][0].endswith("within the noise (80% power from 18.8%)")


def test_a_sentence_says_how_many_comparisons_hold_and_which_does_not():
    tpo, grpo = [0.1, 0.12, 0.11, 0.1], [0.8, 0.82, 0.81, 0.84]
    held = [result("tpo", tpo, H=7), result("grpo", grpo, H=7)]
    one = verdict(Claim("c", "tpo"), held)
    assert one["detail"].startswith("H = 7: TPO 10.8% (median 10.5%) against GRPO 81.8%")
    assert one["detail"].endswith(f"(n = 4), p = {one['against'][0]['p']:.1g}")
    assert one["reasons"] == []
    overlap = [result("tpo", [0.1, 0.9, 0.1, 0.9], H=8), result("grpo", [0.9, 0.1, 0.8, 0.1], H=8)]
    two = verdict(Claim("c", "tpo"), [*held, *overlap])
    assert two["detail"].startswith("1 of 2 comparisons hold. One that does not: H = 8: TPO")
    again = [result(r.method, r.values("end"), H=9) for r in held]
    both = verdict(Claim("c", "tpo"), [*held, *again])
    assert both["detail"].startswith("All 2 comparisons hold, such as H = 7: TPO")


def test_steps_are_medians_and_censored_at_the_horizon():
    def of(method, steps):
        return MethodResult({}, method, method.upper(), True, lambda metric: np.array(steps), 101)

    never = np.inf
    results = [of("tpo", [10.0, 12, 11, 10]), of("grpo", [90.0, never, never, never])]
    found = verdict(Claim("c", "tpo", metric="steps"), results)
    assert found["status"] == "holds"
    assert "TPO 10 steps (median, 4 of 4 seeds get there)" in found["detail"]
    assert "GRPO never (median, 1 of 4 seeds get there)" in found["detail"]


def test_what_was_not_run_is_undecided():
    found = verdict(Claim("c", "tpo"), [])
    assert found == {
        "claim": "c",
        "status": "undecided",
        "detail": "none of the runs that this claim is about has been made",
        "reasons": [],
        "against": [],
    }


def test_an_unknown_rule_names_the_valid_ones():
    with pytest.raises(ValueError, match="'less', 'below' or 'above'"):
        Claim("c", "tpo", rule="best")
