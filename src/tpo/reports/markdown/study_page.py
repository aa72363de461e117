"""docs/research/studies: a page per study, with every published number beside ours, and their index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tpo import declarations
from tpo.reports.labels import verdict_in_words
from tpo.reports.markdown import report_page
from tpo.reports.markdown.notes import Group
from tpo.reports.markdown.sections import NOT_RUN, Section
from tpo.reports.page_data import plain
from tpo.reports.wording import MEANINGS, SAID, duration, settings, share_done
from tpo.reports.wording import tally as tally_of
from tpo.stats.repetition import AGREES, HIGHER, LOWER, NOISY
from tpo.stats.significance import LEAST

CLAIMS = {"holds": "hold", "does not hold": "do not hold", "undecided": "undecided"}

INTRODUCTION = """# Studies: the paper's experiments, run again

Every number of the figures and tables of the TPO paper (arXiv 2604.06159) and of its talk, beside
ours. No setting was tuned to match the paper. Each study has a page: what was asked, what came out, the figure,
every number, and the command that repeats its runs."""

READING = """\
## How to read the tables

**Published numbers.** The published number is a mean over seeds, as ours is. So it is compared with the
range in which a repetition of our runs would fall, which the brackets show. It *agrees* if the whole range
is within 3 points of it, or within 25% for steps; these margins were fixed beforehand. That includes a
range that leaves it out by less than the margin: such a difference is significant, and too small to matter.
Otherwise *ours is lower* or *higher* if the range leaves it out. Otherwise it is *too noisy*: with so few
seeds both are possible.

**Claims.** Comparisons are paired over seeds. One is significant if Student's p is at most 5%, or if all of
six or more seeds are on one side. A claim holds (✓) if every comparison that it is about is significant. It
does not hold (✗) if one is significant the other way, corrected for their number (Holm), or if all
comparisons with one rival together are. Otherwise it is undecided (?). Two means are level if the 95%
interval of their difference lies within a twentieth of the larger mean. Level methods may share the lowest
error. Steps are compared up to the end of the run: a seed that does not get there counts as one step more.
A claim about a fixed number holds if the range of the mean lies on its side.

**Effect and power.** *Claims by rival* has a line per claim and rival. *Hold* counts the settings in which the
comparison holds. The effect is the mean difference over all settings, in units of the root mean square
difference, from -1 to 1; its p is that of all comparisons with a rival together. "80% power from" is the
effect, or the difference, that so many seeds find 8 times in 10.

**How often verdicts are wrong.** Without any difference at most 6% are: single comparisons, claims about 32
comparisons, and published numbers; 3, 5, 10 and 20 seeds; normal seeds, exponential ones, and seeds of
which some fail completely. A test repeats these simulations. `python tools/verdict_rates.py` prints them,
with the power. With heavy tails (log-normal seeds) up to 9% of published numbers differ; of
steps up to 7%, where seeds vary by 80%.

**Seeds that fail completely.** Where some seeds of a study end above 90% and others below 10%, a sample can
miss either kind. Then the range is that of Fisher's exact test, or of Clopper and Pearson for a fixed
number. It is wide: 20 seeds that all fail do not exclude 4 of 20 that succeed. The page of such a study
shows failures and the median seed side by side.

The columns of a table of learning curves:"""

MADE = """\
## How these pages are made

    tpo evidence

writes them from the summaries and notes in `docs/evidence`. `tpo evidence DIR` adds the finished runs of a
folder first. On another device the same seeds give other curves, because rounding differences grow (see
[the lab](../../guides/lab.md)). So compare distributions over seeds, not single seeds."""


def page(found: Section) -> str:
    """The page of one study."""
    shown = plain(found)
    title = report_page.text(shown["title"])
    figure = shown.get("figure")
    parts = [
        f"# {title}",
        fewer_seeds(found),
        _labelled("Question", shown.get("question")),
        _labelled("Answer", shown.get("answer")),
        published(found),
        "\n".join(map(verdict, shown["verdicts"])),
        f"![{title}]({figure})" if figure else "",
        report_page.failed(shown, "##"),
        report_page.against(shown["verdicts"]),
        *_numbers(shown["table"]["rows"]),
        f"## Notes\n\n{shown['notes']}" if shown["notes"] else "",
        "## Setting",
        report_page.text(shown["about"]),
        report_page.text(_runs(shown)),
        report_page.facts("Settings", settings(shown)),
        report_page.facts("Provenance", shown.get("provenance") or {}),
        "The command that repeats these runs:",
        report_page.code(shown["command"]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def fewer_seeds(found: Section) -> str:
    """A sentence if a run of the paper's study has fewer seeds than the paper; else empty."""
    name = str(found["name"])
    if name not in declarations.list_studies(extra=False):
        return ""
    study = declarations.get_study(name)
    scale = study.scale("full")
    pairs = {
        (int(row["n"]), int(scale.settings_at(study, row["coords"])["seeds"]))
        for row in found["table"]["rows"]
        if row.get("n")
    }
    short = sorted({ours for ours, theirs in pairs if ours < theirs})
    if not short:
        return ""
    theirs = max(theirs for ours, theirs in pairs if ours in short)
    seeds = " to ".join(str(n) for n in dict.fromkeys((short[0], short[-1])))
    return (
        f"**Fewer seeds than the paper: {seeds} of {theirs}.** Most differences are then undecided."
    )


def _labelled(label: str, words: str | None) -> str:
    return f"**{label}.** {words}" if words else ""


def _numbers(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    return [
        "## Numbers",
        report_page.table(rows),
        "What the columns mean: [how to read the tables](index.md#how-to-read-the-tables).",
    ]


def _runs(found: Section) -> str:
    done, cells = share_done(found)
    cost = found.get("cost") or {}
    parts = [str(found["source"]), f"{done} of {cells} runs"]
    if cost.get("seconds") is not None:
        parts.append(f"{duration(cost['seconds'])} on {cost.get('device')}")
    return " · ".join(parts)


def verdict(found: Mapping[str, Any], names: Mapping[str, str] = MappingProxyType({})) -> str:
    """A claim's line, with methods in words; `names` has the words for some labels."""
    return report_page.verdict(verdict_in_words(found, names))


def counts(found: Section) -> Counter[str]:
    """How many published numbers of the study have each verdict."""
    rows = [row for row in found["table"]["rows"] if row.get("published") is not None]
    return Counter(row.get("agreement") or NOT_RUN for row in rows)


def published(found: Section) -> str:
    """A sentence on the published numbers; empty for a study without any."""
    if not counts(found):
        return ""
    said = tally_of(found["table"]["rows"], NOT_RUN)
    return f"Published numbers ({report_page.text(found['source'])}), {said}."


def claims(found: Sequence[Section], ours: bool) -> Counter[str]:
    """The verdicts on claims: about the studies of the paper, or about our own."""
    own = {*declarations.list_studies()} - {*declarations.list_studies(extra=False)}
    asked = [one for one in found if (one["name"] in own) == ours]
    return Counter(verdict["status"] for one in asked for verdict in one["verdicts"])


def _by_status(count: Counter[str]) -> str:
    return ", ".join(f"{count[status]} {words}" for status, words in CLAIMS.items())


def tally(found: Sequence[Section]) -> str:
    """How many numbers agree with ours, and how many claims hold."""
    count = sum((counts(one) for one in found), Counter())
    total = sum(count.values())
    compared = sum(count[verdict] for verdict in SAID)
    theirs, ours = claims(found, ours=False), claims(found, ours=True)
    own = f" **{ours.total()} claims of our own studies**: {_by_status(ours)}."
    return (
        f"**{total} published numbers.** {compared} have been run: {count[AGREES]} agree, "
        f"ours is lower for {count[LOWER]} and higher for {count[HIGHER]}, {count[NOISY]} are too noisy to "
        f"tell. {total - compared} have fewer than {LEAST} seeds or none. "
        f"**{theirs.total()} claims**: {_by_status(theirs)}." + (own if ours else "")
    )


def index(found: Sequence[Section], groups: Sequence[Group]) -> str:
    """The index page: a table for each group, with what came out of each study."""
    known = {one["name"]: one for one in found}
    parts = [INTRODUCTION, tally(found)]
    for group in groups:
        parts += [f"## {group.heading}", group.about, _table([known[name] for name in group.names])]
    parts += [READING, report_page.legend(MEANINGS), MADE, report_page.toctree(list(known))]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(found: Sequence[Section]) -> str:
    lines = [
        [
            f"[{report_page.text(one['title'])}]({one['name']}.md)",
            asked(one.get("question"), one.get("answer")),
            _agreement(one),
            " ".join(report_page.SIGNS[v["status"]] for v in one["verdicts"]) or "–",
            report_page.text(one["source"]),
        ]
        for one in found
    ]
    heads = ["study", "question and answer", "published numbers that agree", "claims", "source"]
    return report_page.raw_grid(heads, lines, [False, False, True, False, False])


def asked(question: str | None, answer: str | None) -> str:
    """A question with its answer, for a cell of a table."""
    return " ".join(filter(None, [f"*{question}*" if question else "", answer]))


def _agreement(found: Section) -> str:
    count = counts(found)
    return f"{count[AGREES]} of {sum(count.values())}" if count else "–"
