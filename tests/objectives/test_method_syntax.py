"""`NAME:option=value:...` is read in one place, and what is written is read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpo.objectives.method_syntax import label, parse, parse_value, written


@pytest.mark.parametrize(
    ("text", "value"),
    [("4", 4), ("1e-5", 1e-5), (".5", 0.5), ("true", True), ("False", False), ("(1, 2)", (1, 2)),
     ("adam", "adam"), ("inf", float("inf")), ("None", "None")],
)  # fmt: skip
def test_a_value_is_a_number_true_or_false_or_text(text, value):
    found = parse_value(text)
    assert (found, type(found)) == (value, type(value))


def test_a_class_of_a_file_has_options_too():
    assert parse("a/mine.py:Mine:eta=0.5:score=mean") == (
        "a/mine.py:Mine",
        {"eta": 0.5, "score": "mean"},
    )
    assert label("a/mine.py:Mine:eta=0.5") == "Mine, eta 0.5"
    assert label("dapo:epochs=2", {"dapo": "Mine"}) == "Mine, epochs 2"


VALUES = st.one_of(
    st.integers(),
    st.floats(allow_nan=False),
    st.booleans(),
    st.from_regex(r"[a-z_]{2,9}\d", fullmatch=True),
)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,9}", fullmatch=True), VALUES))
def test_what_is_written_is_read_back(options):
    assert parse(written("tpo", options)) == ("tpo", options)


@pytest.mark.parametrize(
    ("text", "words"),
    [("tpo:eta", "'tpo:eta' holds 'eta', expected option=value"),
     ("tpo:eta=", "holds 'eta='"), ("tpo:=1", "holds '=1'"), ("tpo:eta=1:eta=2", "holds eta twice")],
)  # fmt: skip
def test_what_is_not_an_option_is_named(text, words):
    with pytest.raises(ValueError, match=words):
        parse(text)
