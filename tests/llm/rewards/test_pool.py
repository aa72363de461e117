"""Scoring in processes: a scorer that raises, hangs or returns nonsense is counted, and training continues."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tpo.llm.rewards.pool import Scoring, text_of

QUIET = pytest.mark.filterwarnings("ignore:a completion could not be scored:RuntimeWarning")


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A scorer in a user's own module; the completion names what it does wrong."""
    (tmp_path / "faulty_scorer.py").write_text(
        "import os, time\n"
        "print('hello from the import')\n"
        "def score(completion, answer):\n"
        "    print('between the answers')\n"
        "    if completion == 'raise': raise KeyError('x')\n"
        "    if completion == 'hang': time.sleep(60)\n"
        "    if completion == 'exit': os._exit(3)\n"
        "    return {'none': None, 'nan': float('nan'), 'inf': float('inf')}.get(completion, float(completion == answer))\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    return "faulty_scorer:score"


@QUIET
def test_a_scorer_that_raises_hangs_or_returns_nonsense_is_counted_and_left_out(
    faulty: str,
) -> None:
    scoring = Scoring({"name": faulty}, timeout=2.0, workers=2)
    completions = ["good", "raise", "hang", "none", "nan", "inf", "exit", "good", "bad", "good"]
    start = time.perf_counter()
    try:
        scores = scoring(completions, answer=["good"] * 10)
    finally:
        scoring.close()
    assert time.perf_counter() - start < 40  # it did not wait for the one that sleeps for a minute
    assert scores == [1.0, None, None, None, None, None, None, 1.0, 0.0, 1.0]
    assert scoring.failures.counts == {"raised": 2, "hung": 1, "no finite number": 3}


def test_the_first_failure_of_a_kind_is_reported(faulty: str) -> None:
    scoring = Scoring({"name": faulty}, workers=1)
    try:
        with pytest.warns(
            RuntimeWarning, match=r"raised: KeyError: 'x'.*left out of its group"
        ) as seen:
            scoring(["raise", "raise"], answer=["", ""])
    finally:
        scoring.close()
    assert len(seen) == 1


@QUIET
def test_a_scorer_that_cannot_be_imported_is_a_failure() -> None:
    scoring = Scoring({"name": "no_such_module:score"}, workers=1)
    assert scoring(["a"], answer=["a"]) == [None]
    assert scoring.failures.total == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("named", None),
        ("alone", r"own_scorer:alone does not take \(completion, answer\) by position: too many"),
        (
            "three",
            r"own_scorer:three does not take \(completion, answer\) by position: 3 is not a callable",
        ),
        ("absent", "has no attribute 'absent'"),
    ],
)
def test_a_scorer_is_called_by_position_and_checked_before_a_run(
    name: str, words: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_scorer.py").write_text(
        "def named(said, wanted): return said == wanted\ndef alone(said): return 1\nthree = 3\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    scoring = Scoring({"name": f"own_scorer:{name}"}, workers=1)
    try:
        if words is None:
            scoring.check()
            assert scoring(["a", "b"], answer=["a", "a"]) == [1.0, 0.0]
            more = Scoring(scoring.scorer, ("answer", "level"), workers=1)
            with pytest.raises(ValueError, match=r"does not take \(completion, answer, level\)"):
                more.check()
        else:
            with pytest.raises(ValueError, match=words):
                scoring.check()
    finally:
        scoring.close()


def test_scoring_options() -> None:
    for seconds in (0, -1, float("nan"), float("inf"), 1e10, 1e300):
        with pytest.raises(
            ValueError, match="timeout is .*, expected a number above 0, at most 1e6"
        ):
            Scoring({"name": "exact"}, timeout=seconds)
    with pytest.raises(ValueError, match="workers is 0, expected a whole number from 1"):
        Scoring({"name": "exact"}, workers=0)
    conversation: list[dict[str, Any]] = [{"role": "assistant", "content": "hi"}]
    assert text_of(conversation) == "hi"
    assert text_of([]) == ""


@QUIET
def test_a_row_that_cannot_be_sent_is_a_failure_of_that_row() -> None:
    circle: list[Any] = []
    circle.append(circle)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    answers = ["a", 10**5000, circle, deep, {1j: "a"}, b"a", "a"]
    scoring = Scoring({"name": "exact"}, workers=1)
    try:
        assert scoring(["a"] * 7, answer=answers) == [1.0, *[None] * 5, 1.0]
        assert scoring.failures.counts == {"raised": 5}
        odd = [None, {"a": 1}, [{}], [5], "", [{"content": circle}], 3, ["a"], "a"]
        given = [None, None, 1.0, None, 1.0, None, None, None, 0.0]
        assert scoring(odd, answer=[""] * 9) == given
        assert scoring.failures.counts == {"raised": 5, "no text": 6}
    finally:
        scoring.close()
    del deep  # slowly, before the interpreter ends


@QUIET
def test_a_forged_score_beyond_every_float_is_no_number() -> None:
    scoring = Scoring({"name": "exact"}, workers=1)
    for score in (10**400, True, "1", [1], None):
        assert scoring._score({"score": score}) is None
    assert scoring.failures.counts == {"no finite number": 5}


@QUIET
def test_what_is_said_of_a_failure_is_one_line_without_escapes() -> None:
    scoring = Scoring({"name": "exact"}, workers=1)
    scoring._score({"kind": "raised", "error": "red\x1b[31m\nand \u202e back" + " x" * 10**6})
    said = scoring.failures.first["raised"]
    assert said.startswith(r"red\x1b[31m and \u202e back x x")
    assert len(said) == 1000
