"""The page on logs names every metric that a run logs."""

import re
from collections.abc import Iterator

import pytest

from support import ROOT

pytest.importorskip("trl")

PAGE = (ROOT / "docs/guides/logs.md").read_text(encoding="utf-8")
TOTALS = re.compile("train_|total_flos|loss$|step$")
"""What transformers writes at the end of a run, and the loss, of which the first sentence speaks."""


def named() -> Iterator[str]:
    """Every metric of the tables; `a_x`, `y_` in one cell share their prefix."""
    for cell in re.findall(r"^\| (`.*?) \|", PAGE, flags=re.MULTILINE):
        names = re.findall(r"`(.+?)`", cell)
        folder = names[0].rpartition("/")[0]
        for name in names:
            yield name if "/" in name or not folder else f"{folder}/{name}"


def known(metric: str) -> bool:
    """Whether a row speaks of this metric; NAME is any reward, K any number, `min_` a prefix."""
    own = re.sub(r"\d+", "K", metric.replace("/reward", "/NAME"))
    return any(own == name or (name.endswith("_") and own.startswith(name)) for name in named())


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The metrics of two steps with TPO, and of two with GRPO and a KL."""
    from support import tiny_model
    from tpo.llm import TargetPolicyTrainer

    found: set[str] = set()
    for options in ({"score": "ratio"}, {"objective": "grpo", "beta": 0.1}):
        folder = tmp_path_factory.mktemp("run")
        trainer = TargetPolicyTrainer(
            tiny_model.saved(folder / "model"),
            tiny_model.reward,
            tiny_model.config(folder, max_steps=2, **options),
            train_dataset=tiny_model.prompts(),
        )
        trainer.train()
        found |= {name for row in trainer.state.log_history for name in row}
    return found


def test_every_logged_metric_is_explained(logged: set[str]) -> None:
    assert {"target/kl", "kl", "clip_ratio/low_mean"} <= logged
    assert {name for name in logged if not TOTALS.search(name) and not known(name)} == set()


def test_a_metric_that_is_not_explained_is_found() -> None:
    assert known("pass@8")
    assert not known("target/unknown")
