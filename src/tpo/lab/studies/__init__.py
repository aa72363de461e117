"""The library's studies: each figure and table of the paper and the talk, declared as data."""

from __future__ import annotations

from dataclasses import replace

from tpo.declarations import get_study, list_studies, register
from tpo.declarations.published import Published, published_numbers
from tpo.declarations.study import Measure, Scale, Study
from tpo.lab.names import SCALES
from tpo.lab.studies.catalog import bandits, codes, critics, dense, robustness, terminal
from tpo.stats.verdicts import Claim

for _study in (
    *bandits.STUDIES,
    *dense.STUDIES,
    *terminal.STUDIES,
    *dense.LATER_STUDIES,
    *bandits.TALK_STUDIES,
    *terminal.EXTRA_STUDIES,
    *dense.EXTRA_STUDIES,
    *critics.STUDIES,
    *codes.STUDIES,
    *robustness.STUDIES,
):
    _numbers = tuple(p for p in published_numbers() if p.study == _study.name)
    register(replace(_study, published=_numbers))

__all__ = [
    "SCALES", "Claim", "Measure", "Published", "Scale", "Study", "get_study", "list_studies",
    "published_numbers", "register",
]  # fmt: skip
