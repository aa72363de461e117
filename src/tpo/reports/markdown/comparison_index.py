"""docs/research/comparisons/index.md: every comparison of language models with its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tpo.reports.markdown import report_page
from tpo.reports.markdown.comparison_page import title_of
from tpo.reports.markdown.headline import DASH, Pair, Summary
from tpo.reports.markdown.notes import Group, Note
from tpo.reports.markdown.study_page import asked

INTRODUCTION = """# Comparisons on language models

Each comparison trains several methods with the same prompts, the same seeds and the same number of rollouts
(completions sampled for training). Each has a page: what was asked, what came out, the figure, every number,
and the command that repeats its runs.

The tables show the TPO setting and the GRPO setting with the highest final accuracy on the reported seeds. This
choice favours the side with more settings, so read the settings on the page. *TPO - GRPO* is in points, with
Student's 95% interval, paired over seeds; bold excludes 0. *Relative rollouts* are TPO's rollouts to match
GRPO's final accuracy, divided by GRPO's; below 1, TPO needs fewer. Some comparisons share runs."""

NOTHING = """There is no comparison yet. These commands add one:

    tpo train --model Qwen/Qwen3-1.7B --task gsm8k --compare tpo,grpo --seeds 3 --out DIR
    tpo evidence DIR"""

LEGEND = """\
## How to read the tables

Accuracy is measured on held-out prompts. A number is the mean over seeds. Brackets hold the 95% bootstrap
interval of the interquartile mean.

| column | meaning |
| --- | --- |
| sampled % | mean score of sampled completions: *accuracy*, unless "greedy" is said |
| greedy % | share of prompts that greedy decoding solves |
| pass@k % | share of prompts that at least one of k samples solves |
| rollouts to A% | until the mean sampled accuracy over seeds reaches A%; in brackets, how many seeds reach it |
| relative to GRPO | these rollouts divided by GRPO's |
| entropy | of the policy's tokens, over the last tenth of training |
| informative % | share of groups whose scores differ, over all of training |
| clipped % | share of steps whose gradient norm was above TRL's `max_grad_norm`, so that it was clipped |
| KL | of the final policy to the initial one, in nats per completion |
| s/step, GB | time per step and peak memory of one run; runs at the same time share a device |

A% is the accuracy at 90% of GRPO's gain, which is its final minus its initial sampled accuracy. If a
comparison has GRPO with several options (such as epochs per batch), this is the one with the highest final
sampled accuracy: *the best GRPO*. Accuracy is interpolated linearly between evaluations.

A claim is tested with Student's 95% interval of the difference, paired over seeds; *significant* means that it
excludes 0. A seed that never reaches A% counts as one rollout batch more than the budget. With three seeds, few
differences are significant.

Other words on these pages:

- *Epochs*: updates over the same rollout batch (option `epochs`; TRL calls it `num_iterations`).
- *Pooled ties* (`ties=pooled`): candidates of a group with equal scores are fitted as one outcome. *Anchored
  ties* (`ties=anchored`, the default): their shares of probability are anchored to p_old.
- *Unclipped*: without a clip bound on the gradient norm (`max_grad_norm=0`). TRL's default bound is 1.
- *Zero-gradient steps skipped*: a batch without an informative group moves nothing, not even by Adam's momentum
  (`skip_zero_gradient`).
- *Collapsed*: the run ends with hardly any right sample."""

MADE = """\
## How these pages are made

    tpo evidence

writes them from the summaries and notes in `docs/evidence/llm`. `tpo evidence DIR` first adds the finished
comparison in DIR, the folder that `tpo train --compare` wrote."""


def index(kept: Mapping[str, Summary], notes: Mapping[str, Note], groups: Sequence[Group]) -> str:
    """The index page: a table for each group of comparisons."""
    if not kept:
        return f"{INTRODUCTION}\n\n{NOTHING}\n"
    parts = [INTRODUCTION]
    for group in groups:
        parts += [f"## {group.heading}", group.about, _table(group.names, kept, notes)]
    names = [name for group in groups for name in group.names]
    parts += [LEGEND, MADE, report_page.toctree(names)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(names: Sequence[str], kept: Mapping[str, Summary], notes: Mapping[str, Note]) -> str:
    heads = [
        "comparison",
        "question and answer",
        "seeds",
        "TPO %",
        "GRPO %",
        "TPO - GRPO",
        "relative rollouts",
    ]
    lines = [_line(name, kept[name], notes.get(name, Note())) for name in names]
    return report_page.raw_grid(heads, lines, [False, False, *[True] * 5])


def _line(name: str, one: Summary, note: Note) -> list[str]:
    title = report_page.text(note.title or title_of(name, one))
    pair = Pair.of(one, note.own_side)
    numbers = (
        [str(pair.seeds), *pair.finals(), pair.gap(), pair.relative_rollouts(1.0)]
        if pair
        else [DASH] * 5
    )
    return [f"[{title}]({name}.md)", asked(note.question, note.answer), *numbers]
