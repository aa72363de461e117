"""Progress of `tpo train` where stderr is not a terminal."""

from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("transformers")

from tpo.llm.runs import progress


@pytest.mark.parametrize(("seconds", "shown"), [(1e9, [1, 5]), (0.0, [1, 2, 3, 4, 5])])
def test_the_first_and_the_last_step_are_printed_and_others_at_intervals(
    seconds, shown, monkeypatch, capsys, tmp_path
):
    monkeypatch.setattr(progress, "LINE_SECONDS", seconds)
    logs = {"rewards": {}, "prompt": [], "completion": []}
    logger = progress.StepLogger(SimpleNamespace(_logs=logs), tmp_path)
    for step in range(1, 6):
        state = SimpleNamespace(is_world_process_zero=True, global_step=step, max_steps=5)
        logger.on_log(None, state, None, {"reward": 0.5})
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == [f"{step}/5" for step in shown]
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 5


@pytest.mark.parametrize(("begun_at", "said"), [(0, 0), (2, 1)])
def test_only_a_resumed_run_lacks_earlier_evaluations(
    begun_at: int, said: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluator = progress.Evaluator.__new__(progress.Evaluator)
    vars(evaluator).update(
        path=tmp_path / "evaluations.jsonl",
        recipe=SimpleNamespace(eval_every=1, in_steps=lambda every: every),
        _evaluate=lambda state: None,
    )
    state = SimpleNamespace(global_step=begun_at, max_steps=4, is_world_process_zero=True)
    evaluator.on_train_begin(None, state, None)
    assert capsys.readouterr().err.count("results of the run will lack them") == said
