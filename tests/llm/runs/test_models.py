"""GGUF files are converted once, whole or not at all."""

from pathlib import Path

import pytest

pytest.importorskip("trl")

from tpo.llm.runs import models
from tpo.llm.runs.models import save_whole


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


def test_another_file_is_converted_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder may hold the model of a run that never began, or of a probe."""
    converted: list[str] = []

    def convert(source: Path, folder: Path) -> None:
        converted.append(source.name)
        save_whole(folder, models._source_record(source))

    monkeypatch.setattr(models, "_convert", convert)
    for name, text in (("a.gguf", "1"), ("a.gguf", "1"), ("b.gguf", "1"), ("b.gguf", "12")):
        (tmp_path / name).write_text(text)
        assert models.local_copy(str(tmp_path / name), tmp_path / "base") == str(tmp_path / "base")
    assert converted == ["a.gguf", "b.gguf", "b.gguf"]
