"""One store for all smoke runs: studies that share a run share it here too."""

import pytest

from kept_runs import tabular
from tpo import studies
from tpo.results import evidence
from tpo.results.gather import gather
from tpo.studies.runner import Request, run


@pytest.fixture(scope="session")
def store_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("studies") / "store"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tabular(tmp_path_factory.mktemp("evidence") / "store")
    run(Request(studies.study("talk"), "smoke"), folder)
    return folder


@pytest.fixture(scope="module")
def kept(store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    evidence.write(folder, gather([store]))
    return folder
