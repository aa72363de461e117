import pytest

from tpo.storage.former_names import current_command, current_method, current_options


@pytest.mark.parametrize(
    ("former", "current"),
    [
        ("tpo:iterations=4:ties=free", "tpo:epochs=4:ties=pooled"),
        ("tpo:eta=0.5:iterations=4", "tpo:epochs=4:eta=0.5"),
        (
            "grpo:learning_rate=6e-06:skip_silent=true",
            "grpo:learning_rate=6e-06:skip_zero_gradient=true",
        ),
        ("TPO eta=0.5 iterations=4 ties=held", "TPO epochs=4 eta=0.5 ties=anchored"),
        ("tpo:ties=free,grpo:iterations=4,lpo", "tpo:ties=pooled,grpo:epochs=4,lpo"),
    ],
)
def test_a_former_method_is_read_as_the_current_one(former: str, current: str) -> None:
    assert current_method(former) == current
    assert current_method(current) == current


@pytest.mark.parametrize("text", ["tpo", "tpo:score=mean:eta=2", "K=3 seeds (n = 5), free of ties"])
def test_a_text_without_former_names_stays_as_it_is(text: str) -> None:
    assert current_method(text) == text


def test_labels_in_a_sentence_are_renamed() -> None:
    claim = "TPO eta=0.5 iterations=4 ends with a lower error than GRPO iterations=4"
    assert current_method(claim) == (
        "TPO epochs=4 eta=0.5 ends with a lower error than GRPO epochs=4"
    )


def test_flags_of_a_command_are_renamed_and_no_others() -> None:
    former = (
        "tpo train --iterations 4 --no-skip-silent --compare 'tpo:ties=free,grpo' --tune eta=1,2"
    )
    assert current_command(former) == (
        "tpo train --epochs 4 --no-skip-zero-gradient --compare 'tpo:ties=pooled,grpo' --tune eta=1,2"
    )


def test_options_keep_their_order_and_their_values() -> None:
    former = {"iterations": 4, "ties": "free", "spread_weights": False, "eta": 1.0}
    assert list(current_options(former).items()) == [
        ("epochs", 4), ("ties", "pooled"), ("weight_dithering", False), ("eta", 1.0)
    ]  # fmt: skip


@pytest.mark.parametrize("order", [["iterations", "epochs"], ["epochs", "iterations"]])
def test_an_option_under_both_its_names_is_refused(order: list[str]) -> None:
    with pytest.raises(ValueError, match="'iterations' and 'epochs', two names of one option"):
        current_options(dict.fromkeys(order, 4))
