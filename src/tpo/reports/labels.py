"""Names of methods as a person would write them: `TPO, 4 epochs, learning rate 1.2e-5`.

Stores and evidence keep a method as a specification (`tpo:epochs=4`) or as a label made of one (`TPO epochs=4`,
`TPO, epochs 4`). `readable` turns each of the three into the same words, and leaves those as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tpo.objectives.base import label as objective_label

NAMES = {
    "TPO no anchor": "TPO without anchor",
    "TPO outcomes": "TPO, pooled ties",
    "TPO token": "TPO per token",
    "GRPO no KL": "GRPO without KL",
    "GRPO masked": "GRPO without zero-variance groups",
    "GRPO token": "GRPO per token",
    "GSPO token": "GSPO-token",
    "PG (IS)": "PG with importance sampling",
    "LPO reverse": "LPO, reverse KL",
    "LPO JS": "LPO, Jensen-Shannon",
    "LPO alpha": "LPO, alpha divergence",
    "TRPO penalty": "TRPO with KL penalty",
}
"""Labels of methods that are too short to be understood."""

PHRASES: Mapping[str, Mapping[str, str]] = {
    "epochs": {"1": "1 epoch", "": "{} epochs"},
    "max_grad_norm": {"0": "no gradient clipping", "": "gradient norm clipped to {}"},
    "skip_zero_gradient": {"true": "zero-gradient steps skipped", "false": "zero-gradient steps taken"},
    "ties": {"": "{} ties"},
    "optimiser": {
        "muon": "Muon", "muon_fading": "Muon with fading steps", "adam": "Adam", "sgd": "SGD",
        "normalized": "steps of fixed norm", "trpo": "TRPO's steps",
    },
    "score": {"": "score: {}"},
}  # fmt: skip
"""Per option the words for a value; "" is any other value. An option without words here is `name value`."""

_VALUE = r"[\w.+-]*\w"
_OPTIONS = re.compile(rf"((?:[:, ] ?\w+={_VALUE})+)")
_IN_TEXT = re.compile(rf"(\w*)((?:[:, ] ?\w+={_VALUE})+)")
_LAB_OPTIONS = re.compile(r"(\w*)((?:, (?:epochs|optimiser) \w+)+)")
_NAMED = re.compile("|".join(rf"\b{re.escape(name)}(?!\w)" for name in NAMES))
_OPTION = re.compile(r"(\w+)(=| )(\S+)")


def readable(label: object) -> str:
    """`tpo:epochs=4:learning_rate=1.2e-05`, or a label made of it -> `TPO, 4 epochs, learning rate 1.2e-5`."""
    head, *options = _parts(" ".join(str(label).split()))
    name = objective_label(head)
    return ", ".join([NAMES.get(name, name), *(_words(option) for option in options)])


def shortened(labels: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Labels in words without the options that all have, and those options. Unlike labels stay unlike."""
    parts = {label: readable(label).split(", ") for label in labels}
    first = next(iter(parts.values()), [])
    shared = [
        part
        for part in first[1:]
        if len(parts) > 1 and all(part in one[1:] for one in parts.values())
    ]
    names = {
        label: ", ".join([one[0], *(part for part in one[1:] if part not in shared)])
        for label, one in parts.items()
    }
    if len(set(names.values())) < len(names):
        return {label: label for label in parts}, []
    return names, shared


def readable_text(text: str) -> str:
    """Prose with methods in it: `TPO epochs=4 ends lower` -> `TPO (4 epochs) ends lower`."""

    def words(found: re.Match[str]) -> str:
        options = _split(found[2]) or found[2].split(", ")[1:]
        return f"{objective_label(found[1])} ({', '.join(map(_words, options))})"

    named = _NAMED.sub(lambda found: NAMES[found[0]], text)
    return _LAB_OPTIONS.sub(words, _IN_TEXT.sub(words, named))


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Prose with the given names in words for the labels in it; a longer label goes before its beginning."""
    known = sorted((label for label in names if names[label] != label), key=len, reverse=True)
    if known:
        pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, known))})(?!\w)")
        text = pattern.sub(lambda found: inline(names[found[0]]), text)
    return readable_text(text)


def verdict_in_words(verdict: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A copy of a verdict of `tpo.stats.verdicts` with methods in words."""
    found = dict(verdict)
    for part in ("claim", "detail"):
        found[part] = renamed(str(verdict.get(part) or ""), names)
    found["reasons"] = [renamed(str(reason), names) for reason in verdict.get("reasons") or ()]
    found["against"] = [
        {**one, "rival": names.get(one["rival"]) or readable(one["rival"])}
        for one in verdict.get("against") or ()
    ]
    return found


def inline(label: str) -> str:
    """A label within a sentence: `TPO, 4 epochs, eta 0.5` -> `TPO (4 epochs, eta 0.5)`."""
    name, *options = label.split(", ")
    return f"{name} ({', '.join(options)})" if options else name


def _parts(label: str) -> list[str]:
    """The name of the method, then its options as `key=value`, or as words where they are words already."""
    if (found := _OPTIONS.search(label)) and found.end() == len(label):
        return [label[: found.start()], *_split(found[1])]
    return label.split(", ")


def _split(options: str) -> list[str]:
    return re.findall(rf"\w+={_VALUE}", options)


def _words(option: str) -> str:
    """`epochs=4`, and `epochs 4` as labels of the lab have it -> `4 epochs`; other text stays."""
    found = _OPTION.fullmatch(option)
    if not found or (found[2] == " " and found[1] not in PHRASES):
        return option
    key, value = found[1], value_words(found[3])
    known = {"": f"{key.replace('_', ' ')} {{}}", **PHRASES.get(key, {})}
    return known.get(value.lower(), known[""]).format(value.replace("_", " "))


def value_words(value: object) -> str:
    """`1.2e-05` -> `1.2e-5`, `0.0002` -> `2e-4`, `2.0` -> `2`; other text stays."""
    try:
        number = float(str(value))
    except ValueError:
        return str(value)
    if number and abs(number) < 1e-3:
        digits, power = f"{number:.6e}".split("e")
        return f"{float(digits):g}e{int(power)}"
    return f"{number:g}"
