r"""Fit a language model to a file of scored answers with TPO; nothing is sampled.

Each line of the file is a JSON object: {"prompt": "2 + 3 =", "answers": ["5", "6"], "scores": [1, 0]}.
Prompts may have different numbers of answers. An answer follows its prompt after a space. Two answers with
scores 1 and 0 are a preference:

    python examples/scored_answers.py scored.jsonl --model Qwen/Qwen2.5-0.5B --out fitted

Without a file it writes one, and fits a tiny random model to it; that takes seconds. The target is built once,
from the model as it was: q = softmax(u/eta), since all log-ratios are 0 there (chapter 14 of the course). It is
a full fine-tuning in float32 on one device, one prompt per step.
"""

import json
import math
import random
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import tpo
from tpo.benchmarks import tiny_llm

EXPECTED = 'expected {"prompt": "2 + 3 =", "answers": ["5", "6"], "scores": [1, 0]}'


def checked(line: str, where: str) -> dict[str, Any]:
    """One line of the file; what is wrong with it is an error that names it."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where} is not valid JSON ({error}), {EXPECTED}") from None
    missing = {"prompt", "answers", "scores"} - set(row if isinstance(row, dict) else ())
    if missing:
        raise ValueError(f"{where}: {', '.join(sorted(missing))} missing, {EXPECTED}")
    prompt, answers, scores = row["prompt"], row["answers"], row["scores"]
    if not (prompt and isinstance(prompt, str)):
        raise ValueError(f"{where}: prompt is {prompt!r}, expected a text")
    if not (isinstance(answers, list) and all(isinstance(x, str) for x in answers)):
        raise ValueError(f"{where}: answers are {answers!r}, expected a list of texts")
    if not (isinstance(scores, list) and all(map(is_finite, scores))):
        raise ValueError(f"{where}: scores are {scores!r}, expected a list of finite numbers")
    if len(answers) != len(scores):
        raise ValueError(
            f"{where}: {len(answers)} answers and {len(scores)} scores, expected as many scores as answers"
        )
    if len(answers) < 2:
        raise ValueError(f"{where}: {len(answers)} answers, expected two or more to compare")
    return row


def is_finite(score: Any) -> bool:
    return isinstance(score, int | float) and math.isfinite(score)


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, without those that are empty."""
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    found = [checked(line, f"{path}, line {number}") for number, line in lines if line.strip()]
    if not found:
        raise ValueError(f"{path} is empty, {EXPECTED} on each line")
    return found


class Group(NamedTuple):
    """One prompt with its answers, tokenised: rows of prompt and answer."""

    ids: torch.Tensor
    """[K, S], padded on the right"""
    answer: torch.Tensor
    """[K, S - 1] bool: which of the tokens from the second on belong to the answer"""
    scores: torch.Tensor


def tokenised(lines: list[dict[str, Any]], tokenizer: Any) -> list[Group]:
    """A group for each line; an answer ends with the end-of-text token, if the tokenizer has one."""
    groups = []
    end_of_text = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    for row in lines:
        prompt = tokenizer(row["prompt"])["input_ids"]
        answers = [
            tokenizer(" " + text, add_special_tokens=False)["input_ids"] + end_of_text
            for text in row["answers"]
        ]
        ids = torch.zeros(len(answers), len(prompt) + max(map(len, answers)), dtype=torch.long)
        own = torch.zeros_like(ids, dtype=torch.bool)
        for i, answer in enumerate(answers):
            end = len(prompt) + len(answer)
            ids[i, :end] = torch.tensor(prompt + answer)
            own[i, len(prompt) : end] = True
        groups.append(Group(ids, own[:, 1:], torch.tensor(row["scores"], dtype=torch.float32)))
    return groups


def log_probs(model: Any, group: Group) -> torch.Tensor:
    """[1, K, S - 1] of each token from the second on; right padding is harmless to a causal model."""
    logits = model(input_ids=group.ids[:, :-1]).logits.float()
    return logits.log_softmax(-1).gather(-1, group.ids[:, 1:, None])[None, ..., 0]


@torch.no_grad()
def prepare(model: Any, group: Group, objective: tpo.Objective) -> Any:
    """The target of a group, anchored at the model as it is now."""
    return objective.prepare(
        tpo.Groups(
            log_probs_old=log_probs(model, group),
            scores=group.scores[None],
            mask=group.answer[None],
        )
    )


@torch.no_grad()
def prefers_the_best(model: Any, groups: list[Group]) -> float:
    """The share of prompts on which an answer with the highest score is the likeliest of the answers."""
    likeliest = [(log_probs(model, g)[0] * g.answer).sum(-1).argmax() for g in groups]
    best = [g.scores[i] == g.scores.max() for g, i in zip(groups, likeliest, strict=True)]
    return torch.stack(best).float().mean().item()


def fit(
    model: Any, groups: list[Group], objective: tpo.Objective, epochs: int, rate: float
) -> None:
    """One optimiser step per prompt and epoch."""
    prepared = [prepare(model, group, objective) for group in groups]
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    order = list(range(len(groups)))
    for _ in range(epochs):
        random.shuffle(order)
        for i in order:
            loss = objective.loss(log_probs(model, groups[i]), prepared[i])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def example_file(path: Path) -> Path:
    """Prompts of two words and four answers each; an answer scores its share of the prompt's words."""
    draw = random.Random(0)
    rows = []
    for _ in range(24):
        words = [f"w{draw.randrange(20)}" for _ in range(2)]
        answers = [[draw.choice([*words, "w20", "w21"]) for _ in range(2)] for _ in range(4)]
        rows.append({
            "prompt": " ".join(words),
            "answers": [" ".join(answer) for answer in answers],
            "scores": [sum(word in words for word in answer) / 2 for answer in answers],
        })  # fmt: skip
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def above_0(kind: Callable[[str], float]) -> Callable[[str], float]:
    """A reader of numbers above 0, for the command line."""

    def number(text: str) -> float:
        value = kind(text)
        if not 0 < value < math.inf:
            raise ArgumentTypeError(f"{text}, expected a number above 0")
        return value

    return number


def options() -> ArgumentParser:
    parser = ArgumentParser(description="Fit a language model to a file of scored answers.")
    parser.add_argument("file", nargs="?", type=Path, help="JSON lines: prompt, answers, scores")
    parser.add_argument("--model", help="a name on the hub or a folder; needed with a file")
    parser.add_argument("--out", type=Path, help="where to save the fitted model")
    parser.add_argument("--eta", type=above_0(float), default=1.0)
    parser.add_argument("--epochs", type=above_0(int), default=3)
    parser.add_argument(
        "--learning-rate", type=above_0(float), help="default 1e-5, with the tiny model 3e-3"
    )
    return parser


def loaded(name: str | None) -> tuple[Any, Any]:
    """Model and tokenizer; without a name those of the example."""
    if name is None:
        return tiny_llm.model(22, 32, 2, intermediate_size=64), tiny_llm.tokenizer(22)
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
    return model, AutoTokenizer.from_pretrained(name)


def main() -> None:
    parser = options()
    args = parser.parse_args()
    if args.file and not args.model:
        parser.error("--model is missing: which model shall be fitted to the file?")
    random.seed(0)
    try:  # the file first: a mistake in it is named before a model is loaded
        lines = rows(args.file or example_file(Path("scored.jsonl")))
        model, tokenizer = loaded(args.model)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    model.eval()  # without dropout: the fit starts where the target is anchored
    groups = tokenised(lines, tokenizer)
    before = prefers_the_best(model, groups)
    objective = tpo.objective("tpo", score="ratio", eta=args.eta)
    fit(model, groups, objective, args.epochs, args.learning_rate or (1e-5 if args.model else 3e-3))
    after = prefers_the_best(model, groups)
    print(
        f"{len(groups)} prompts: a best answer is the likeliest on {before:.0%} before, {after:.0%} after"
    )
    if args.out:
        model.save_pretrained(args.out)
        tokenizer.save_pretrained(args.out)


if __name__ == "__main__":
    main()
