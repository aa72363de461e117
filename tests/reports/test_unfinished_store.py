"""The report of a store with a finished study and one that was interrupted after its first cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.report_command import report_command
from tpo.lab import studies
from tpo.lab.execution import runner


def stop(planned: Any, progress: Any) -> None:
    if progress is None:
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    runner.run(runner.Request(studies.get_study("talk"), "smoke"), folder)
    with pytest.raises(KeyboardInterrupt):
        runner.run(runner.Request(studies.get_study("tabular_single"), "smoke"), folder, stop)
    return folder


def test_the_report_of_an_unfinished_study_shows_its_progress(
    tab: Any, store: Path, capsys: Any
) -> None:
    assert report_command(str(store)) == 0
    html, markdown = capsys.readouterr().out.split()
    page = tab.open(Path(html))
    page.wait_for_selector("html[data-ready] .panel svg *")
    half, whole = page.locator("#study-tabular_single"), page.locator("#study-talk")
    assert "1/4 runs are finished" in half.locator(".note").text_content().replace("  ", " ")
    assert whole.locator(".note").count() == 0
    assert half.locator("path.centre").count() >= 1
    assert whole.locator(".bar rect").count() > 10
    assert whole.locator(".arrow path").count() > 10
    assert whole.locator("td", has_text="agrees").count() >= 10
    assert "tpo run talk --scale smoke" in Path(markdown).read_text(encoding="utf-8")
    assert tab.errors == []
