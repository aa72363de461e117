"""Text tasks: their prompts, how they are scored, and errors that name a wrong option or line."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("datasets")
from tpo.llm import task
from tpo.llm.runs.evaluation import pass_at


def test_pass_at_k_by_hand() -> None:
    assert pass_at(4, 1, 1) == pytest.approx(0.25)
    assert pass_at(4, 1, 2) == pytest.approx(0.5)  # 1 - C(3,2)/C(4,2) = 1 - 3/6
    assert pass_at(4, 0, 4) == 0
    assert pass_at(4, 3, 2) == 1
    with pytest.raises(ValueError, match="k is 5, expected 1 to 4"):
        pass_at(4, 1, 5)


def test_gym_scores_by_the_dataset_itself() -> None:
    """chain_sum: the answer scores 1; another number does not."""
    import reasoning_gym

    made = task(
        "gym:chain_sum", {"min_terms": 2, "max_terms": 2}, extract="number", size=10, held_out=3
    )
    assert len(made.train) == 10
    assert len(made.held_out) == 3
    data = reasoning_gym.create_dataset("chain_sum", seed=0, size=13, min_terms=2, max_terms=2)
    index = made.held_out["index"]
    assert data[index[0]]["question"] in made.held_out["prompt"][0][0]["content"]
    right = [f"it is {data[i]['answer']}" for i in index]
    scoring = made.scoring(workers=1)
    try:
        assert scoring(right, index=index) == [1.0] * 3
        assert max(s or 0 for s in scoring(["it is 123456"] * 3, index=index)) < 0.5
    finally:
        scoring.close()


def test_no_question_is_both_trained_on_and_held_out() -> None:
    """Graphs of six vertices are often the same; what is held out is still drawn as the task draws it."""
    options = {"min_num_vertices": 6, "max_num_vertices": 6}
    made = task("gym:graph_color", options, size=100, held_out=20)
    train, held_out = ([p[0]["content"] for p in part["prompt"]] for part in (made.train, made.held_out))  # fmt: skip
    assert not {*train} & {*held_out}
    assert len(held_out) == 20
    assert 0 < len(train) < 100
    assert list(made.held_out["index"]) == list(range(100, 120))
    one = {"min_num_vertices": 1, "max_num_vertices": 1}
    with pytest.raises(ValueError, match="among the 1 different ones that are held out"):
        task("gym:graph_color", one, size=10, held_out=2)


@pytest.mark.parametrize("name", ["graph_color", "knights_knaves"])
def test_the_papers_gym_tasks(name: str) -> None:
    made = task(f"gym:{name}", size=4, held_out=2, threshold=0.9)
    scoring = made.scoring(workers=1)
    try:
        scores = scoring(["junk"] * 2, index=made.held_out["index"])
        assert scores == [0.0, 0.0]  # partial credit for junk is under the threshold
    finally:
        scoring.close()


def test_without_a_hub_gsm8k_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: Any, **__: Any) -> Any:
        raise ConnectionError("Couldn't reach it")

    monkeypatch.setattr("datasets.load_dataset", unreachable)
    with pytest.raises(OSError, match=r"hub \(Couldn't reach it\): give gsm8k:FOLDER, with train"):
        task("gsm8k", held_out=2)


def test_gsm8k_from_a_folder(tmp_path: Path) -> None:
    rows = [{"question": f"What is {i} + 1?", "answer": f"{i} + 1\n#### {i + 1}"} for i in range(6)]
    for part in ("train", "test"):
        (tmp_path / f"{part}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    made = task(f"gsm8k:{tmp_path}", held_out=2)
    assert len(made.train) == 4  # the files hold the same questions, and two of them are held out
    assert len(made.held_out) == 2
    scoring = made.scoring(workers=1)
    try:
        assert scoring(["1", "1"], answer=made.held_out["answer"]) == [1.0, 0.0]
    finally:
        scoring.close()


def test_jsonl_errors_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    with pytest.raises(FileNotFoundError, match=r"mine.jsonl does not exist"):
        task(str(path))
    good = b'{"prompt": "a", "answer": "b"}\n'
    for content, words in {
        good + b'{"prompt": "a"}\n': "line 2 has no answer",
        good + b"{oops\n": "line 2 is not valid JSON",
        good + b"\n[1]\n": "line 3 holds a list, expected an object",
        good + b'{"messages": [], "answer": "b"}\n': "line 2 has no prompt: its keys are 'messages', 'answer', expected",
        good + b'{"prompt": [], "answer": "b"}\n': "line 2: prompt is an empty list",
        good + b'{"prompt": ["a"], "answer": "b"}\n': "line 2: prompt: message 1 is 'a', expected messages",
        good + b'{"prompt": [{"from": "user", "content": "a"}], "answer": "b"}\n':
            "line 2: prompt: message 1 has no 'role', its keys are 'from', 'content': expected",
        good + b'{"prompt": [{"role": "user", "text": "a"}], "answer": "b"}\n':
            "line 2: prompt: message 1 has no 'content', its keys are 'role', 'text': expected",
        good + b'{"prompt": [{"role": "user", "content": null}], "answer": "b"}\n':
            "line 2: prompt: message 1: content is None, expected text",
        b'{"prompt": 3, "answer": 4}\n': "line 1: prompt is 3, expected text or a list",
        b'{"prompt": "caf\xe9", "answer": "b"}\n': "is not UTF-8 text",
        good: "holds 1 of at least 2 prompts",
        good + b'{"prompt": "c", "answer": "d"}\n': "held_out is 100: set held_out to at most 1",
    }.items():  # fmt: skip
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"mine.jsonl,? (has 2 prompts and )?{words}"):
            task(str(path))


def test_unknown_tasks_and_options_name_themselves() -> None:
    with pytest.raises(ValueError, match="unknown task 'gsm9k'.*gym:chain_sum"):
        task("gsm9k")
    with pytest.raises(ValueError, match="no dataset 'chian_sum'. Did you mean 'chain_sum'?"):
        task("gym:chian_sum")
    with pytest.raises(ValueError, match=r"task_options do not fit gym:chain_sum.*takes min_terms"):
        task("gym:chain_sum", {"min_term": 2})
    with pytest.raises(ValueError, match=r"max_terms must be >= min_terms"):
        task("gym:chain_sum", {"min_terms": 3, "max_terms": 2})


@pytest.mark.parametrize(
    ("name", "options", "check"),
    [
        ("sort", {"length": 3}, lambda q, a: sorted(q.split(), key=int) == a.split() and len(a.split()) == 3),
        ("subtract", {}, lambda q, a: eval(q) == int(a) >= 0),
        ("add", {}, lambda q, a: eval(q) == int(a.rpartition("= ")[2]) and eval(a.replace(" = ", "==").replace(", ", " and "))),
        ("digits", {}, lambda q, a: sum(map(int, q.split())) == int(a)),
        ("reverse", {"length": 5}, lambda q, a: q == a[::-1] and len(a) == 5),
        ("count", {}, lambda q, a: len(a.split()) == int(q.split()[2]) - int(q.split()[0]) + 1),
    ],
)  # fmt: skip
def test_answers_of_toys_are_right(name: str, options: dict[str, Any], check: Any) -> None:
    made = task(f"toy:{name}", options, size=40, held_out=10)
    for part in (made.train, made.held_out):
        for row in part:
            question = row["prompt"][-1]["content"].rpartition(". ")[2]
            assert check(question, row["answer"]), (question, row["answer"])
            assert [turn["role"] for turn in row["prompt"]] == ["user", "assistant"] * 2 + ["user"]
    questions = [str(p[-1]) for part in (made.train, made.held_out) for p in part["prompt"]]
    shown = {str(turn) for turn in made.train[0]["prompt"][:-1]}
    assert len({*questions}) == 50
    assert not shown & {*questions}
    assert made.scoring().scorer["name"] == "exact"


def test_a_toy_that_cannot_be_made_says_why() -> None:
    with pytest.raises(ValueError, match=r"unknown toy task 'sotr'.*sort"):
        task("toy:sotr")
    with pytest.raises(ValueError, match=r"task_options do not fit toy:sort.*lenght"):
        task("toy:sort", {"lenght": 3, "examples": 0})
    with pytest.raises(ValueError, match="task_options hold examples -1, expected a whole number"):
        task("toy:sort", {"examples": -1})
    with pytest.raises(
        ValueError, match="toy:digits has 79 different questions .*ask for 2100: lower them"
    ):
        task("toy:digits", {"length": 2})


def test_the_small_model_reads_questions_letter_by_letter() -> None:
    """Every question and answer is read letter by letter, whatever words the letters make."""
    pytest.importorskip("tokenizers")
    from tpo.llm import small_model

    tokenizer = small_model.tokenizer()
    questions = task("toy:reverse", size=50, held_out=1, options={"length": 5, "examples": 0}).train
    for row in questions:
        ids = tokenizer.apply_chat_template(
            row["prompt"], add_generation_prompt=True, return_dict=False
        )
        assert len(ids) == 1 + 1 + 1 + 5 + 1
        assert tokenizer.decode(tokenizer.encode(row["answer"])) == row["answer"]
    for question, answer in small_model.examples(Random(0), small_model.Pretraining()):
        letters = question[-10:-5]
        assert sorted(letters) == sorted(answer.removesuffix("<end>"))
        assert len(tokenizer.encode(question + answer)) == 9 + 6
    assert len(tokenizer.encode("thers")) == 5
    assert round(sum(x.numel() for x in small_model.model(tokenizer).parameters()) / 1e6, 1) == 0.9


def test_a_share_of_the_small_models_examples_is_right() -> None:
    """96 of 96 with a share of 1; with 1/4, 24 are expected, and 4 letters in random order add 3."""
    pytest.importorskip("tokenizers")
    from tpo.llm.small_model import Pretraining, examples

    def right(share: float) -> int:
        pairs = examples(Random(3), Pretraining(letters=4, right=share))
        return sum(q[-9:-5][::-1] == a.removesuffix("<end>") for q, a in pairs)

    assert right(1.0) == 96
    assert 15 < right(0.25) < 40
    assert right(0.0) < 12


def test_toys_of_unequal_difficulty() -> None:
    with pytest.raises(
        ValueError,
        match=r"toy:sort \(spread is 4, expected 0 to 3.*it takes length, spread, examples",
    ):
        task("toy:sort", {"spread": 4})
    questions = task("toy:reverse", {"length": 4, "spread": 2, "examples": 0}, size=60, held_out=1)
    assert {len(answer) for answer in questions.train["answer"]} == {2, 3, 4, 5, 6}
