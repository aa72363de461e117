"""What continuous integration and `make` run, read from their files."""

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from support import ROOT
from tpo.cli.demo.dense import verdicts
from tpo.lab import studies

WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))


def runs(job: str) -> list[str]:
    """The commands of a job, in order."""
    return [step["run"] for step in WORKFLOW["jobs"][job]["steps"] if "run" in step]


def test_no_test_is_skipped_for_want_of_the_site_or_the_sandbox() -> None:
    steps = runs("test")
    (test,) = [i for i, run in enumerate(steps) if run.startswith("make test ")]
    before = "\n".join(steps[:test])
    assert "make docs " in before
    assert "install --yes bubblewrap" in before
    assert "chromium" in before


def test_the_demo_is_timed_and_its_verdicts_are_read(monkeypatch: Any) -> None:
    made, read = runs("demo")
    assert re.match(r"timeout 180 make demo .*\| tee demo\.txt", made)
    rivals = re.findall(r"for rival in (.*);", read)[0].split()
    (pattern,) = re.findall(r'grep "(.*)" demo\.txt', read)
    found = [
        {"status": "holds", "claim": claim.text, "against": [{"p": 0.01}]}
        for claim in studies.get_study("demo").claims
    ]
    summaries = [{"name": "demo", "verdicts": found}]
    monkeypatch.setattr("tpo.reports.summary.summarise", lambda folder: summaries)
    for rival, line in zip(rivals, verdicts(Path()), strict=True):
        shell = pattern.replace("$rival", rival)
        assert (
            subprocess.run(
                ["grep", shell], input=line, text=True, stdout=subprocess.DEVNULL
            ).returncode
            == 0
        )
