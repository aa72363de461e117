"""Named scorers: what they extract from a completion, and how they score it."""

import pytest

from tpo.llm.rewards.scorers import contains, exact, gsm8k, last_number, load, number, tagged


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("so 3 + 4 = 7.", "7"),
        ("1,234 clips", "1234"),
        ("minus -2.50", "-2.50"),
        ("none", None),
        ("#### 72", "72"),
    ],
)
def test_last_number(text: str, found: str | None) -> None:
    assert last_number(text) == found


def test_scorers_by_hand() -> None:
    assert number("it is 7.0", "7") == 1
    assert number("7 or 8", "7") == 0  # the last one counts
    assert number("no idea", "7") == 0
    assert gsm8k("thus 72", "48/2 = 24\n#### 72") == 1
    assert gsm8k("thus 24", "48/2 = 24\n#### 72") == 0
    assert exact(" Paris ", "paris") == 1
    assert exact("<answer>Paris</answer> it is", "paris") == 1
    assert contains("It is Paris, I think", "paris") == 1
    assert tagged("<answer>1</answer> <answer> 2 </answer>") == "2"
    with pytest.raises(ValueError, match="holds no number: use the scorer 'exact'"):
        number("7", "seven")
    with pytest.raises(ValueError, match=r"unknown scorer 'nubmer'.*module:function"):
        load({"name": "nubmer"})
