"""Every field of the trainer's config, TRL's own included, refuses a value of a wrong type by name."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

from tpo.llm import TargetPolicyConfig
from tpo.llm.trl.field_types import NAMES, _plain

OWN: dict[str, list[Any]] = {
    "objective": ["", "grop", 3, "vapo"],
    "objective_options": ["", "x", "[1]", [1], 3, {"clop": 1}, {"eta": "x"}, {1: 2}],
    "score": ["", "median", 3],
    "eta": ["x", math.nan, math.inf, 0, -1, 10**400],
    "drop_truncated_completions": ["yes", 1, []],
    "success": ["x", math.nan, math.inf],
    "patience": ["x", -1, 1.5, math.nan],
    "reward_timeout": ["x", math.nan, math.inf, 0, -1],
    "fast_sampling": ["yes", 1],
    "shared_prompts": ["yes", 1],
    "micro_batch": ["x", -8, 1.5, 3],
    "skip_zero_gradient": ["no", 0],
    "weight_dithering": ["no", 0],
    "disable_dropout": ["no", 0],
}
"""Wrong values of our own fields."""


def made(folder: Path, **options: Any) -> TargetPolicyConfig:
    base = {"per_device_train_batch_size": 4, "num_generations": 4, "use_cpu": True, "bf16": False}
    return TargetPolicyConfig(str(folder), **{**base, "report_to": "none", **options})


def test_our_own_fields(tmp_path: Path) -> None:
    theirs = {f.name for base in TargetPolicyConfig.__mro__[1:] for f in _fields(base)}
    assert set(OWN) == {f.name for f in fields(TargetPolicyConfig)} - theirs | {"disable_dropout"}
    for name, values in OWN.items():
        for value in values:
            with pytest.raises((ValueError, TypeError)) as refused:
                made(tmp_path, **{name: value})
            said = str(refused.value)
            assert name.removesuffix("_options") in said or "eta" in said, (name, value, said)
            assert any(word in said for word in ("expected", "Valid names", "options", "choose"))


def _fields(base: type) -> Any:
    return fields(base) if hasattr(base, "__dataclass_fields__") else ()


def test_fields_of_trl(tmp_path: Path) -> None:
    """Of the ones whose annotation is a plain type; an object of another class fits none of them."""
    from typing import get_type_hints

    hints, judged = get_type_hints(TargetPolicyConfig), 0
    for f in fields(TargetPolicyConfig):
        if f.name == "output_dir" or not f.init or not _plain(hints[f.name]):
            continue
        plain = _plain(hints[f.name])
        wrong: list[Any] = [{1, 2}] if dict in plain else [{1, 2}, object()]
        wrong += [] if str in plain else ["x"]
        wrong += [math.nan] if {int, float} & {*plain} else []
        wrong += [[1]] if not {list, dict} & {*plain} else []
        for value in wrong:
            with pytest.raises(ValueError, match=f"^{f.name} is .*, expected ") as refused:
                made(tmp_path, **{f.name: value})
            assert any(NAMES[kind] in str(refused.value) for kind in plain)
            judged += 1
    assert judged > 400


def test_right_values_are_accepted(tmp_path: Path) -> None:
    config = made(tmp_path, learning_rate="1e-5", eta=2, score="mean", warmup_steps=1, max_steps=3)
    assert (config.eta, config.max_steps) == (2, 3)
