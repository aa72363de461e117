"""Evidence gives the same tables, verdicts and figures as the store that it was made of."""

import json
import re
from dataclasses import replace

import pytest

from support.kept_runs import call, page_of, tabular
from tpo.cli import main
from tpo.lab import studies
from tpo.lab.execution.runner import Request, run
from tpo.reports import evidence
from tpo.reports.gather import combined, gather, shared
from tpo.reports.gather import command as command_of
from tpo.reports.summary import summarise, summary
from tpo.storage.store import Store


def without_seeds(found):
    """Curves of single seeds are not kept."""
    for panel in found["panels"]:
        for series in panel["series"]:
            series.pop("seeds", None)
    return found


def close(a, b, path=""):
    """Equal but for the digits that are not kept."""
    if isinstance(a, dict):
        assert a.keys() == b.keys(), path
        for key in a:
            close(a[key], b[key], f"{path}/{key}")
    elif isinstance(a, list):
        assert len(a) == len(b), path
        for i, pair in enumerate(zip(a, b, strict=True)):
            close(*pair, f"{path}/{i}")
    elif isinstance(a, float):
        of_differences = "/against/" in path  # of numbers that are nearly equal
        assert b == pytest.approx(a, rel=1e-2 if of_differences else 1e-3, abs=1e-12), path
    elif not path.endswith("detail") and "/reasons/" not in path:
        assert a == b, path


def test_a_summary_of_the_evidence_is_that_of_the_store(store, kept):
    whole, small = summarise(store), summarise(kept)
    assert [found["name"] for found in small] == [found["name"] for found in whole]
    for a, b in zip(whole, small, strict=True):
        close(without_seeds(a), without_seeds(b), a["name"])


def test_a_report_can_be_made_of_evidence(kept, tmp_path, capsys):
    out = tmp_path / "report.html"
    assert main(["report", str(kept), "--out", str(out)]) == 0
    assert "tpo run tabular_single --scale smoke --seeds 4" in out.read_text()


def test_per_seed_numbers_are_kept_in_full(store, kept):
    found = json.loads((kept / "tabular_single.json").read_text())
    for cell in found["parts"]:
        curves = Store(store).curves(cell["key"])["expected_error"]
        series = cell["tracks"]["expected_error"]
        assert series["last"] == pytest.approx(curves[:, -1], rel=1e-4)
        assert series["best"] == pytest.approx(curves.min(1), rel=1e-4)
        assert (series["steps"]["seeds"], cell["seeds"]) == ([None] * 4, 4)
    assert found["origins"][0]["versions"]["jax"]


# ---- several folders


def test_pieces_make_a_whole_and_more_seeds_win(tmp_path):
    pieces = [
        tabular(tmp_path / "a", 3, ("pg", "dg")),
        tabular(tmp_path / "b", 4, ("dg",)),
        tabular(tmp_path / "c", 2, ("dg", "tpo")),
    ]
    (result,) = gather(pieces)
    assert {p.method: p.seeds for p in result.cells} == {"pg": 3, "dg": 4, "tpo": 2}
    start = "tpo run tabular_single --scale smoke"
    assert command_of(result) == (
        f"{start} --methods tpo && {start} --seeds 3 --methods pg && {start} --seeds 4 --methods dg"
    )


def test_the_command_repeats_the_seeds_that_were_run(tmp_path):
    study = studies.get_study("tabular_single")
    run(Request(study, "smoke", 2, ("pg",)), tmp_path)
    run(Request(study, "smoke", 2, ("dg",), first_seed=4), tmp_path)
    (result,) = gather([tmp_path])
    start = "tpo run tabular_single --scale smoke"
    seeds = "" if study.scale("smoke").seeds == 2 else " --seeds 2"
    assert command_of(result) == (
        f"{start}{seeds} --methods pg && {start}{seeds} --seed-offset 4 --methods dg"
    )
    evidence.write(tmp_path / "kept", [result])
    assert summarise(tmp_path / "kept")[0]["command"].endswith("--seed-offset 4 --methods dg")


def test_a_run_that_another_study_has_finished_counts(kept):
    result = evidence.read(kept)[0]
    waiting = replace(result.cells[0], done=False, seeds=0, series={}, method="other")
    twin = replace(result, cells=(waiting, replace(waiting, key="elsewhere")))
    _, (found, missing) = (r.cells for r in shared([result, twin]))
    assert found == replace(result.cells[0], method="other")
    assert not missing.done
    stricter = replace(twin, study=replace(result.study, threshold=1e-9))
    assert not any(cell.done for cell in shared([result, stricter])[1].cells)


def test_the_evidence_grows_with_every_store(tmp_path):
    folder = tmp_path / "evidence"
    evidence.write(folder, gather([tabular(tmp_path / "a", 2, ("pg",))]))
    evidence.write(folder, gather([folder, tabular(tmp_path / "b", 2, ("tpo",))]))
    (result,) = evidence.read(folder)
    assert [cell.method for cell in result.cells if cell.done] == ["pg", "tpo"]


def test_what_is_not_finished_is_left_out(tmp_path, capsys):
    def stop(planned, state):
        if planned.method == "dg":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tabular(tmp_path / "store", watch=stop)
    docs = tmp_path / "docs"
    assert call(str(tmp_path / "store"), "--docs", str(docs)) == 0
    assert "tabular_single: left out 3 runs that are not finished" in capsys.readouterr().out
    (result,) = evidence.read(docs / "evidence")
    assert [cell.method for cell in result.cells if cell.done] == ["pg"]


def test_the_evidence_declares_a_study_that_is_not_the_librarys(kept, tmp_path):
    (result,) = [r for r in evidence.read(kept) if r.study.name == "tabular_single"]
    asked = replace(result.manifest, command="tpo run mine.py:STUDY")
    mine = replace(result, study=replace(result.study, name="mine"), manifest=asked)
    evidence.write(tmp_path, [mine])
    (again,) = gather([tmp_path])
    assert (again.study, len(again.cells)) == (mine.study, len(mine.cells))
    assert command_of(again) == "tpo run mine.py:STUDY"


def test_a_claim_about_every_setting_waits_for_all_of_them(tmp_path):
    folder = tmp_path / "evidence"
    evidence.write(folder, gather([tabular(tmp_path / "a", 4, ("tpo", "pg"))]))
    (found,) = summarise(folder)
    assert found["progress"] == {"cells_done": 2, "cells": 4}
    (verdict,) = found["verdicts"]
    assert verdict["status"] != "holds"
    assert "TPO against DG: not finished" in verdict["detail"]
    assert found["command"].endswith("--seeds 4")


def test_arrays_are_kept_where_a_study_has_no_curves(store_dir, tmp_path):
    run(Request(studies.get_study("mnist_mechanism"), "smoke"), store_dir)
    results = [r for r in gather([store_dir]) if r.study.name == "mnist_mechanism"]
    evidence.write(tmp_path, results)
    close(summary(results[0]), summarise(tmp_path)[0])


def test_every_part_says_where_it_was_run(tmp_path):
    folders = [tabular(tmp_path / "a", 2, ("pg",)), tabular(tmp_path / "b", 2, ("tpo",))]
    for path in folders[1].glob("*/cost.json"):
        noted = json.loads(path.read_text())
        noted["provenance"]["device"] = "NVIDIA H200"
        path.write_text(json.dumps(noted))
    folder = tmp_path / "evidence"
    evidence.write(folder, gather(folders))
    (found,) = summarise(folder)
    assert found["provenance"]["device"][1] == "NVIDIA H200"
    devices = {row["method"]: row["device"] for row in found["table"]["rows"]}
    assert devices["TPO"] == "NVIDIA H200" != devices["PG"]
    page = page_of(gather([folder]))
    assert re.search(r"\| TPO \|.*\| NVIDIA H200 \|", page)


def test_a_store_that_noted_no_origin_of_its_runs_has_that_of_its_study(tmp_path):
    folder = tabular(tmp_path / "a", 2, ("pg",))
    for path in folder.glob("*/cost.json"):
        path.write_text(json.dumps({"seconds": 2.0}))
    (result,) = gather([folder])
    assert result.cells[0].origin["versions"]["jax"]


def test_two_scales_of_a_study_do_not_mix(tmp_path, store):
    run(Request(studies.get_study("talk"), "quick"), tmp_path / "quick")
    with pytest.raises(ValueError, match=r"talk is at scale smoke in .* and at scale quick in"):
        gather([store, tmp_path / "quick"])


def test_origins_are_combined_where_they_differ():
    found = combined([{"commit": "a", "device": "x"}, {"commit": "a", "device": "y"}])
    assert found == {"commit": "a", "device": ["x", "y"]}


# ---- broken evidence


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda text: text[:-200], "talk.json is not valid JSON"),
        (lambda text: text.replace('"format": 1', '"format": 9'), "format 9, and this version of tpo reads format 1"),
        (lambda text: "[]", "has format None"),
        (lambda text: text.replace('"study": "talk"', '"study": "tolk"'), "unknown study 'tolk'"),
        (lambda text: text.replace('"origins"', '"origin"'), "KeyError: 'origins'"),
        (lambda text: text.replace('"seeds":1,', ""), "KeyError: 'seeds'"),
    ],
)  # fmt: skip
def test_a_broken_file_is_named(kept, tmp_path, spoil, message):
    text = (kept / "talk.json").read_text()
    assert spoil(text) != text
    (tmp_path / "talk.json").write_text(spoil(text))
    with pytest.raises(ValueError, match=re.escape(str(tmp_path / "talk.json"))) as error:
        evidence.read(tmp_path)
    assert message in str(error.value)


def test_a_single_run_of_a_model_is_no_evidence(tmp_path):
    (tmp_path / "recipe.json").write_text('{"model": "m", "task": "toy:sort"}')
    with pytest.raises(
        ValueError, match="is one run of tpo train.*give the folder of a comparison"
    ):
        evidence.read(tmp_path)


def test_numbers_that_were_lost_are_noticed(kept, tmp_path):
    found = json.loads((kept / "tabular_single.json").read_text())
    series = found["parts"][0]["tracks"]["expected_error"]
    for name, message in (("mean", "not equally long"), ("last", "not equally long")):
        before = series[name]
        series[name] = before[:-1]
        (tmp_path / "tabular_single.json").write_text(json.dumps(found))
        with pytest.raises(ValueError, match=message):
            evidence.read(tmp_path)
        series[name] = before
    found["parts"][0]["seeds"] = 99
    (tmp_path / "tabular_single.json").write_text(json.dumps(found))
    with pytest.raises(ValueError, match="has 4 seeds, and its cell has 99"):
        evidence.read(tmp_path)


def test_no_evidence_says_what_to_give(tmp_path):
    with pytest.raises(ValueError, match="holds no evidence: give the folder of finished runs"):
        call("--docs", str(tmp_path))
    with pytest.raises(ValueError, match="takes no DIR"):
        call(str(tmp_path), "--check", "--docs", str(tmp_path))


def test_replacing_a_record_keeps_its_order(kept):
    (result,) = [r for r in gather([kept]) if r.study.name == "tabular_single"]
    shuffled = replace(result, cells=tuple(reversed(result.cells)))
    assert evidence.text(shuffled) == evidence.text(result)
