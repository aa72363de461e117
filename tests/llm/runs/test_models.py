"""Models: GGUF files are converted once, whole or not at all; names of the hub are read at a revision."""

import os
import re
from pathlib import Path

import pytest

pytest.importorskip("trl")
import torch

from support import tiny_model
from support.broken_files import CORRUPTIONS, broken
from tpo.llm.runs import models
from tpo.llm.runs.models import save_whole
from tpo.llm.runs.recipe import Recipe
from tpo.llm.runs.train import at_revisions, prepare_training
from tpo.storage.files import write_json


def test_an_interrupted_conversion_leaves_no_folder(tmp_path: Path) -> None:
    """What says that a model was converted is written before its weights."""

    class Part:
        def __init__(self, name: str) -> None:
            self.name = name

        def save_pretrained(self, folder: Path) -> None:
            if not self.name:
                raise KeyboardInterrupt
            (folder / self.name).touch()

    base = tmp_path / "base"
    with pytest.raises(KeyboardInterrupt):
        save_whole(base, {}, Part("config.json"), Part(""))
    assert not base.exists()
    save_whole(base, {}, Part("config.json"), Part("weights"))
    assert [path.name for path in tmp_path.iterdir()] == ["base"]
    assert len(list(base.iterdir())) == 3


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The contents of files that were converted, to a folder with a config."""
    found: list[str] = []

    class Config:
        def save_pretrained(self, folder: Path) -> None:
            (folder / "config.json").write_text("{}")

    def convert(source: Path, folder: Path) -> None:
        found.append(source.read_text())
        save_whole(folder, models._source_record(source), Config())

    monkeypatch.setattr(models, "_convert", convert)
    return found


def test_another_content_is_converted_anew(tmp_path: Path, converted: list[str]) -> None:
    """A folder may hold the model of a run that never began, or of a probe; names and times say nothing."""
    base = tmp_path / "base"
    for name, text in (
        ("a.gguf", "1"),
        ("a.gguf", "1"),
        ("b.gguf", "1"),
        ("b.gguf", "2"),
        ("a.gguf", "12"),
    ):
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (0, 0))
        assert models.local_copy(str(tmp_path / name), base) == models.Source(str(base))
    assert converted == ["1", "2", "12"]


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_a_broken_conversion_is_made_again(
    tmp_path: Path, corruption: str, converted: list[str]
) -> None:
    base, source = tmp_path / "base", tmp_path / "a.gguf"
    source.write_text("1")
    for name in ("converted.json", "config.json"):
        models.local_copy(str(source), base)
        assert len(converted) == 1
        path = base / name
        path.write_bytes(CORRUPTIONS[corruption](path.read_bytes()))
        models.local_copy(str(source), base)
        assert len(converted) == 2
        converted.pop()


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_a_broken_file_of_a_model_is_named(place: Path, corruption: str) -> None:
    for name in (
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "model.safetensors",
    ):
        with (
            broken(place / "model" / name, corruption),
            pytest.raises(
                ValueError, match=rf"model: {re.escape(name)} cannot be read \(.*: restore the file"
            ),
        ):
            models.local_copy(str(place / "model"), place / "base")
    source = models.local_copy(str(place / "model"), place / "base")
    (place / "model/tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="the tokenizer of model .*model cannot be read"):
        models.read_tokenizer(source)


@pytest.fixture
def refs(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The branches of a model on the hub, as its cache holds them: main is of seed 0, v1 of seed 1."""
    cache, commits = place / "hub", {"main": "a" * 40, "v1": "b" * 40}
    of_model = cache / "models--org--tiny"
    (of_model / "refs").mkdir(parents=True)
    for number, (branch, commit) in enumerate(commits.items()):
        tiny_model.saved(of_model / "snapshots" / commit, seed=number)
        (of_model / "refs" / branch).write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    return of_model / "refs"


@pytest.mark.usefixtures("refs")
def test_a_model_of_the_hub_is_read_at_its_revision(place: Path) -> None:
    """A branch, a tag or a commit; what was read is then a commit, which recurs in later reads."""
    like = tiny_model.model(0)
    for name, commit in (
        ("org/tiny", "a" * 40),
        ("org/tiny@v1", "b" * 40),
        (f"org/tiny@{'b' * 40}", "b" * 40),
    ):
        source = models.local_copy(name, place / "base")
        assert models.read_tokenizer(source).pad_token == "<pad>"
        pinned = source.at_commit()
        assert pinned == models.Source("org/tiny", commit)
        read = models.read_model(pinned, like)
        same = torch.equal(tiny_model.flat(read.parameters()), tiny_model.flat(like.parameters()))
        assert same == (commit == "a" * 40)
    weights = place / "hub/models--org--tiny/snapshots" / ("a" * 40) / "model.safetensors"
    with (
        broken(weights, "half"),
        pytest.raises(ValueError, match="model.safetensors cannot be read .* remove .*/models--org--tiny, and it"),
    ):  # fmt: skip
        models.Source("org/tiny").at_commit()
    with pytest.raises(OSError, match="model 'org/tiny@v2' is not a folder here"):
        models.read_tokenizer(models.local_copy("org/tiny@v2", place / "base"))
    local = models.local_copy(str(place / "model"), place / "base")
    assert local.at_commit() == local


def test_a_resumed_run_reads_the_commits_that_it_was_started_with(place: Path, refs: Path) -> None:
    """The model, and the reference model of a KL, though the branch has moved."""
    out = place / "run"
    chosen = Recipe(
        "org/tiny", str(place / "task.jsonl"), held_out=4, prompts=2, group_size=4, beta=0.1, cpu=True, out=str(out)
    )  # fmt: skip
    revisions = {"model": f"org/tiny@{'a' * 40}"}
    for _ in range(2):
        setup = prepare_training(at_revisions(chosen, out), place / "base")
        setup.scoring.close()
        assert setup.revisions == revisions
        for model in (setup.trainer.model, setup.trainer.ref_model):
            expected = tiny_model.flat(tiny_model.model(0).parameters())
            assert torch.equal(tiny_model.flat(model.parameters()), expected)
        write_json(out / "revisions.json", setup.revisions)
        (refs / "main").write_text("b" * 40)
    moved = prepare_training(chosen, place / "base")
    moved.scoring.close()
    assert moved.revisions == {"model": f"org/tiny@{'b' * 40}"}
