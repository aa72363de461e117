"""What every test starts from."""

import gc
import os
import signal
import sys

import pytest

# One browser for all tests of a process: playwright allows no second one beside it.
from support.browser import browser, tab  # noqa: F401 - fixtures

# Read when the libraries are first imported, by whichever test. Without the first, a name of the hub is asked for
# over a closed network for ten minutes.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell's background job ignores Ctrl-C, and so would every command that the tests start and then interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def unforeseen_errors_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of `tpo` that no message was written for fails the test, though a command prints it in one line."""

    def fail(error: Exception) -> str:
        raise error

    if "tpo.cli" in sys.modules:
        monkeypatch.setattr("tpo.cli._unforeseen", fail)


@pytest.fixture(autouse=True, scope="module")
def _frozen() -> None:
    """What imports and earlier modules left stays: else every `gc.collect` of a trainer walks through it, for seconds."""
    gc.collect()
    gc.freeze()
