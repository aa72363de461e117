"""Every file that a user supplies, when it is wrong, is named in one line, before JAX or torch is imported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.refusals import problems

MODEL = ["--model", "a_model"]
LONG = "x" * 300

OWN = {
    "missing": None,
    "a folder": "folder",
    "empty": b"",
    "not Python": b"def (:\n",
    "not text": bytes(range(128, 256)),
    "with a null byte": b"x = 1\0\n",
    "another class": b"class Other: pass\n",
    "not a class": b"Mine = 3\n",
    "without its parts": b"class Mine: pass\n",
    "raising": b"class Mine: pass\nraise KeyError('mine')\n",
    "exiting": b"import sys\nMine = type('Mine', (), {})\nsys.exit(0)\n",
    "importing what is missing": b"import no_such_module\nclass Mine: pass\n",
    "recursive": b"def f(): f()\nMine = type('Mine', (), {})\nf()\n",
}
"""What FILE.py may hold instead of a class `Mine` of the right kind."""

TAKES_OWN = {
    "an objective of the lab": ["run", "--methods", "{file}:Mine"],
    "a task of the lab": ["run", "--task", "{file}:Mine"],
    "a study": ["run", "{file}:Mine"],
    "an objective to rank": ["compare", "--methods", "tpo,{file}:Mine"],
    "an objective to train": ["train", *MODEL, "--task=toy:sort", "--objective", "{file}:Mine"],
    "methods to train": ["train", *MODEL, "--task=toy:sort", "--compare", "tpo,{file}:Mine"],
}

MESSAGES = '{"role": "user", "content": "1 + 1"}'
JSONL = {
    "missing": None,
    "a folder": "folder",
    "empty": b"",
    "blank lines": b"\n\n\n",
    "not JSON": b"a prompt\nan answer\n",
    "half a line": b'{"prompt": "1", "answer": "1"}\n{"prompt": "2", "ans',
    "not text": bytes(range(128, 256)),
    "a list": b"[]\n",
    "a number": b"1\n2\n",
    "other keys": b'{"question": "1", "response": "1"}\n',
    "no answer": b'{"prompt": "1"}\n{"prompt": "2"}\n',
    "null": b'{"prompt": null, "answer": "1"}\n',
    "a prompt that is a number": b'{"prompt": 1, "answer": "1"}\n',
    "no messages": b'{"prompt": [], "answer": "1"}\n',
    "a message without role": b'{"prompt": [{"content": "1"}], "answer": "1"}\n',
    "a message of numbers": b'{"prompt": [{"role": "user", "content": 1}], "answer": "1"}\n',
    "one row": b'{"prompt": "1", "answer": "1"}\n',
    "fewer rows than are held out": b'{"prompt": "1", "answer": "1"}\n' * 5,
    "brackets without end": b"[" * 100_000,
}

YAML = {
    "empty": b"",
    "a list": b"- a\n- b\n",
    "text": b"model\n",
    "a number": b"3\n",
    "not YAML": b"model: [\n",
    "a tab": b"model: m\n\ttask: t\n",
    "two colons": b"model: a: b\n",
    "not text": bytes(range(128, 256)),
    "control characters": b"model: \x00\x01\n",
    "an object": b"model: !!python/object/apply:os.getcwd []\n",
    "an unknown key": b"modle: m\n",
    "a key that is a number": b"1: m\n",
    "a key that is a list": b"[1, 2]: m\n",
    "brackets without end": b"[" * 20_000,
    "two names of one option": b"epochs: 1\niterations: 1\n",
}

CONFIG = {
    "empty": b"",
    "half": b'{"model_type": ',
    "a list": b"[]",
    "no kind": b"{}",
    "an unknown kind": b'{"model_type": "lama"}',
    "a kind that is a number": b'{"model_type": 3}',
}

EVIDENCE = {
    "empty": b"",
    "half": b'{"panels": [',
    "a list": b"[]",
    "another object": b"{}",
    "not text": bytes(range(128, 256)),
    "null": b"null",
}


@pytest.mark.parametrize("use", TAKES_OWN)
def test_a_file_of_ones_own(use: str, place: Path) -> None:
    cases = []
    for number, (state, content) in enumerate(OWN.items()):
        name = f"own{number}.py"
        write(place / name, content)
        words = [name, *(["Mine"] if state in ("another class", "not a class", "empty") else [])]
        cases.append(([word.format(file=name) for word in TAKES_OWN[use]], words))
    assert not (found := problems(cases, place)), "\n".join(found)


def test_a_file_of_prompts(place: Path) -> None:
    cases = []
    for number, content in enumerate(JSONL.values()):
        name = f"prompts{number}.jsonl"
        write(place / name, content)
        cases.append((["train", *MODEL, f"--task={name}", "--held-out=5"], [name]))
        folder = place / f"gsm{number}"
        folder.mkdir()
        asked = (
            content.replace(b'"prompt"', b'"question"') if isinstance(content, bytes) else content
        )
        write(folder / "train.jsonl", asked)
        (folder / "test.jsonl").write_text('{"question": "1", "answer": "#### 1"}\n')
        valid = isinstance(content, bytes) and content.count(b'"answer": "1"}\n') > 0
        if not valid or b"[" in asked or b"null" in asked or b": 1," in asked:
            cases.append((["train", *MODEL, f"--task=gsm8k:gsm{number}"], [f"gsm{number}/train.jsonl"]))  # fmt: skip
    assert not (found := problems(cases, place)), "\n".join(found)


def test_a_file_of_options(place: Path) -> None:
    cases = []
    for number, content in enumerate(YAML.values()):
        name = f"options{number}.yaml"
        write(place / name, content)
        named = "option" if b"modle" in content or b": m" in content or b"iter" in content else name
        cases.append((["train", f"--config={name}"], [named]))
    assert not (found := problems(cases, place)), "\n".join(found)


def test_results_that_are_none(place: Path) -> None:
    cases = [(["report", "missing"], ["missing"]), (["report", "a_folder"], ["a_folder"])]
    cases += [(["report", "a_file"], ["a_file"]), (["report", "a_model"], ["a_model"])]
    cases += [(["report"], ["DIR"]), (["report", "--json", "--csv=-", "a_folder"], ["--csv"])]
    cases += [(["evidence", "a_folder", "--docs=docs"], ["a_folder"])]
    for number, content in enumerate(EVIDENCE.values()):
        name = f"kept{number}.json"
        write(place / name, content)
        cases.append((["report", name], [name]))
    assert not (found := problems(cases, place)), "\n".join(found)


def test_a_model_or_task_that_does_not_exist(place: Path) -> None:
    sort = "--task=toy:sort"
    cases = [
        (["train", f"--model={model}", sort], ["model", "give a folder, a .gguf file, or a hub name"])
        for model in ("no/such-model", "no-such-model", "./missing", "a/b/c", "missing.gguf", "a b",
                      "a_file", "broken.gguf")
    ]  # fmt: skip
    write(place / "broken.gguf", b"GGML")
    for number, content in enumerate(CONFIG.values()):
        (place / f"model{number}").mkdir()
        write(place / f"model{number}/config.json", content)
        cases.append((["train", f"--model=model{number}", sort], [f"model{number}: config.json"]))
    cases += [
        (["train", *MODEL, f"--task={task}"], [task.partition(":")[2] or task.rstrip(":")])
        for task in ("gsm9k", "toy:srt", "toy:", "toy", "gym:chain_sums", "gsm8k:missing", LONG)
    ]
    cases += [
        (["train", *MODEL, sort, f"--task-options={json.dumps(given)}"], ["task_options"])
        for given in ({"lenth": 3}, {"length": "x"}, {"length": 1.5}, {"length": -1}, {"spread": 9},
                      {"examples": -1}, {"length": None}, {"length": [1]})
    ]  # fmt: skip
    cases += [
        (["train", *MODEL, "--task=good.jsonl", "--held-out=1", f"--scorer={scorer}"], [scorer])
        for scorer in (
            "exactly",
            "no_such:score",
            "json:score",
            "math:pi",
            "math:sqrt",
            ":",
            "a:b:c",
        )
    ]
    row = {"prompt": "1", "answer": "1"}
    write(place / "good.jsonl", (json.dumps(row) + "\n").encode() * 3)
    assert not (found := problems(cases, place)), "\n".join(found)


def write(path: Path, content: bytes | str | None) -> None:
    """The file; "folder" makes a folder of that name, None nothing."""
    if content == "folder":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a file, a folder, and what looks like a model."""
    (tmp_path / "a_file").write_text("")
    (tmp_path / "a_folder").mkdir()
    (tmp_path / "a_model").mkdir()
    (tmp_path / "a_model/config.json").write_text('{"model_type": "llama"}')
    return tmp_path
