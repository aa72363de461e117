r"""Fit a language model to a file of scored answers with TPO; nothing is sampled.

Each line of the file is a JSON object: {"prompt": "2 + 3 =", "answers": ["5", "6"], "scores": [1, 0]}.
Prompts may have different numbers of answers. Two answers with scores 1 and 0 are a preference:

    python examples/scored_answers.py scored.jsonl --model Qwen/Qwen2.5-0.5B --out fitted

Without a file it writes one, and fits a tiny random model to it; that takes seconds. The target is built once,
from the model as it was: q = softmax(u/eta), since all log-ratios are 0 there (chapter 14 of the course). It is
a full fine-tuning in float32 on one device, one prompt per step.
"""

import json
import random
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import tpo
from tpo.benchmarks import tiny_llm


class Group(NamedTuple):
    """One prompt with its answers, tokenised: rows of prompt and answer."""

    ids: torch.Tensor
    """[K, S], padded on the right"""
    answer: torch.Tensor
    """[K, S - 1] bool: which of the tokens from the second on belong to the answer"""
    scores: torch.Tensor


def read(path: Path, tokenizer: Any) -> list[Group]:
    """The lines of a file; a line whose answers and scores differ in number is an error that names it."""
    groups = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        row = json.loads(line)
        if len(row["answers"]) != len(row["scores"]):
            raise ValueError(
                f"{path}, line {number}: {len(row['answers'])} answers and {len(row['scores'])} scores, "
                "expected as many scores as answers"
            )
        prompt = tokenizer(row["prompt"])["input_ids"]
        answers = [
            tokenizer(" " + text, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
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


def fit(model: Any, groups: list[Group], eta: float, epochs: int, rate: float) -> None:
    """One optimiser step per prompt and epoch."""
    objective = tpo.objective("tpo", score="ratio", eta=eta)
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


def main() -> None:
    parser = ArgumentParser(description="Fit a language model to a file of scored answers.")
    parser.add_argument("file", nargs="?", type=Path, help="JSON lines: prompt, answers, scores")
    parser.add_argument("--model", help="a name on the hub or a folder; needed with a file")
    parser.add_argument("--out", type=Path, help="where to save the fitted model")
    parser.add_argument("--eta", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument(
        "--learning-rate", type=float, help="default 1e-5, with the tiny model 3e-3"
    )
    args = parser.parse_args()
    if args.file and not args.model:
        parser.error("--model is missing: which model shall be fitted to the file?")
    random.seed(0)
    if args.model:
        tokenizer = AutoTokenizer.from_pretrained(args.model)
        model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
    else:
        tokenizer, model = tiny_llm.tokenizer(22), tiny_llm.model(22, 32, 2, intermediate_size=64)
    model.eval()  # without dropout: the fit starts where the target is anchored
    groups = read(args.file or example_file(Path("scored.jsonl")), tokenizer)
    before = prefers_the_best(model, groups)
    fit(model, groups, args.eta, args.epochs, args.learning_rate or (1e-5 if args.model else 3e-3))
    after = prefers_the_best(model, groups)
    print(
        f"{len(groups)} prompts: a best answer is the likeliest on {before:.0%} before, {after:.0%} after"
    )
    if args.out:
        model.save_pretrained(args.out)
        tokenizer.save_pretrained(args.out)


if __name__ == "__main__":
    main()
