"""Tasks of a mixture on TRL: passed through to the objective, their weights updated, logged and in checkpoints."""

import zlib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")
from datasets import Dataset

from support import tiny_model
from support.exact_gradient import Checked
from tpo.llm.tasks import task
from tpo.objectives import task_logits_after


def by_task(completions: list[str], task: list[str], **_: Any) -> list[float]:
    """Prompts of task b score less."""
    scores = [zlib.crc32(text.encode()) / 2**32 for text in completions]
    return [s if name == "a" else s / 4 for s, name in zip(scores, task, strict=True)]


def mixture() -> Dataset:
    plain = tiny_model.prompts()
    return plain.add_column("task", ["a" if i % 2 else "b" for i in range(len(plain))])


def made(folder: Path, dataset: Any = None, **changes: Any) -> Checked:
    options = {
        "objective": "mt_grpo", "learning_rate": 1e-3, "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 8, **changes,
    }  # fmt: skip
    return Checked(
        tiny_model.model(),
        by_task,
        tiny_model.config(folder, **options),
        train_dataset=mixture() if dataset is None else dataset,
        processing_class=tiny_model.tokenizer(),
    )


def test_weights_follow_the_scores_of_the_tasks_and_are_in_checkpoints(tmp_path: Path) -> None:
    saves = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}
    trainer = made(tmp_path, **saves)
    trainer.train()
    assert max(trainer.errors) < 1e-5  # the reference knows the tasks from the data set
    tasks = trainer.group_fields.tasks
    assert tasks.names == ["a", "b"]
    assert set(trainer.rollouts.groups.tasks.tolist()) == {0, 1}
    logits, last = (0.0, 0.0), {}
    for log in trainer.state.log_history[:4]:
        share = 1 / (1 + 2.718281828459045 ** (logits[1] - logits[0]))
        assert log["task_weight/a"] == pytest.approx(share)
        found = {name: log.get(f"task_score/{name}") for name in "ab"}
        known = {n: s for n, s in found.items() if s is not None}
        gains = [known[n] - last.get(n, known[n]) if n in known else 0.0 for n in "ab"]
        last = {**last, **known}
        usual = sum(last.values()) / len(last)
        logits = task_logits_after(logits, [last.get(n, usual) for n in "ab"], gains)
    assert tasks.logits == pytest.approx(logits)
    assert logits[1] > logits[0]  # the task with lower scores has the larger weight
    resumed = made(tmp_path, **saves)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert resumed.group_fields.tasks.logits == pytest.approx(tasks.logits)


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"holds 3 task_logits, and the column task 2 tasks \(a, b\)"
    ):
        made(tmp_path, objective_options={"task_logits": [0.0, 1.0, 2.0]})
    trainer = made(tmp_path)
    with pytest.raises(ValueError, match="a prompt has task 'c', expected one of a, b"):
        trainer.group_fields.read([{"prompt": "w1", "task": "c"}] * 4)
    state = {"names": ["a", "x"], "logits": [0.0, 0.0], "scores": {}}
    with pytest.raises(ValueError, match="checkpoint has weights of tasks a, x, and .* tasks a, b"):
        trainer.group_fields.tasks.restore(state)


def test_a_jsonl_file_may_name_the_task_of_each_row(tmp_path: Path) -> None:
    rows = [
        f'{{"prompt": "{i} + 1", "answer": "{i + 1}", "task": "{"sum" if i % 2 else "other"}"}}'
        for i in range(6)
    ]
    (tmp_path / "mixed.jsonl").write_text("\n".join(rows))
    mixed = task(str(tmp_path / "mixed.jsonl"), held_out=2)
    assert mixed.train["task"] == ["other", "sum", "other", "sum"]
    (tmp_path / "plain.jsonl").write_text("\n".join(row.replace("task", "about") for row in rows))
    assert "task" not in task(str(tmp_path / "plain.jsonl"), held_out=2).train.column_names
