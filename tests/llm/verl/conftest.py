"""verl in an environment of its own (`make test-verl`); elsewhere these tests are skipped."""

import warnings

import pytest

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # verl warns of every engine that is not installed
        import verl.trainer.ppo.v1  # noqa: F401
    MISSING = ""
except ModuleNotFoundError as error:
    MISSING = (
        f"{error.name} is not installed: run `make test-verl`, which has an environment of its own"
    )


class Skipped(pytest.Module):
    """A test file that is skipped without being imported, where verl is not installed."""

    def collect(self):
        pytest.skip(MISSING, allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    return Skipped.from_parent(parent, path=module_path) if MISSING else None
