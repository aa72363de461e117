"""Third-party warnings that are not ours to fix; everything else is an error, as in all our tests."""

import warnings
from pathlib import Path

import pytest

THIRD_PARTY = (
    "ignore::DeprecationWarning:torch.*",
    "ignore:.*pin_memory.*:UserWarning",
    "ignore::FutureWarning:(trl|transformers|peft|accelerate|datasets|torch).*",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/llm" in str(item.path):
            for rule in THIRD_PARTY:
                item.add_marker(pytest.mark.filterwarnings(rule))


@pytest.fixture(autouse=True, scope="session")
def _single_thread() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch = pytest.importorskip("torch")
    torch.set_num_threads(1)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a model and a task."""
    from support.tiny_training import prepare

    return prepare(tmp_path)
