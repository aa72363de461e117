"""`open_results` on committed evidence, in a fresh Python: no study is imported, no file is called damaged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support import ROOT
from tpo.lab import studies
from tpo.reports import evidence, open_results

EVIDENCE = ROOT / "docs/evidence"
FRESH = """if True:
    import json, sys
    from tpo.reports import open_results
    found = open_results(sys.argv[1])
    print(json.dumps({
        "lab": [name for name in sys.modules if name.startswith(("jax", "tpo.lab"))],
        "steps": {name: found[name].studies[0]["asks"] for name in found.names},
        "commands": {name: found[name].studies[0]["command"] for name in found.names},
    }))
"""


def test_a_fresh_python_opens_the_committed_evidence() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FRESH, str(EVIDENCE)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["lab"] == []
    assert set(found["steps"]) == {path.stem for path in evidence.files(EVIDENCE)}
    assert (found["steps"]["vocab"], found["steps"]["terminal"]) == ("steps", "end")
    assert found["commands"]["vocab"] == "tpo run vocab --scale full"


@pytest.mark.parametrize("path", evidence.files(EVIDENCE), ids=lambda path: path.stem)
def test_the_evidence_declares_the_study_as_the_catalog_has_it(path: Path) -> None:
    """`tpo evidence` renews the declarations."""
    declared = json.loads(path.read_text())["declaration"]
    known = studies.get_study(path.stem).to_json()
    assert declared == json.loads(json.dumps(known))


def test_evidence_without_a_declaration_is_renewed(tmp_path: Path) -> None:
    whole = (EVIDENCE / "talk.json").read_text()
    found = json.loads(whole)
    del found["declaration"]
    (tmp_path / "talk.json").write_text(json.dumps(found))
    (result,) = evidence.read(tmp_path)
    assert evidence.text(result) == whole
    older = "".join(x for x in whole.splitlines(True) if not x.startswith(' "declaration"'))
    assert len(older) < len(whole)
    assert evidence.renewed(older, result.study) == whole
    assert evidence.renewed(whole, result.study) == whole


def test_a_comparison_of_language_models_is_opened_by_its_file() -> None:
    found = open_results(EVIDENCE / "llm/small_equal.json")
    assert found.names == ["small_equal"]
    rows = [row for row in found.table().rows if row["metric"] == "final sampled accuracy %"]
    kept = json.loads((EVIDENCE / "llm/small_equal.json").read_text())["table"]["rows"]
    means = [row["mean"] for row in kept if row["metric"] == "final sampled accuracy %"]
    assert [row["mean"] for row in rows] == means
    assert "last episode" not in str(found.table())
    assert found.plot().svg().startswith("<svg")
    both = open_results(EVIDENCE / "llm/small_equal.json", EVIDENCE / "llm/small_ties.json")
    assert both.names == ["small_equal", "small_ties"]


def test_a_file_that_is_no_comparison_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(ValueError, match=r"x\.json holds no comparison of language models"):
        open_results(tmp_path / "x.json")
