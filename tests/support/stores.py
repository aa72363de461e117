"""Fixtures: a folder for all smoke runs of a session, a store of two studies, and its evidence."""

import pytest

from support.kept_runs import tabular
from tpo.lab import studies
from tpo.lab.execution.runner import Request, run
from tpo.reports import evidence
from tpo.reports.gather import gather


@pytest.fixture(scope="session")
def store_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("studies") / "store"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tabular(tmp_path_factory.mktemp("evidence") / "store")
    run(Request(studies.get_study("talk"), "smoke"), folder)
    return folder


@pytest.fixture(scope="module")
def kept(store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    evidence.write(folder, gather([store]))
    return folder
