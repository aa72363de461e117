"""One store for all smoke runs: studies that share a run share it here too."""

import pytest


@pytest.fixture(scope="session")
def store_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("studies") / "store"
