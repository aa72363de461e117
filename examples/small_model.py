r"""Make a language model for a laptop: 0.9M parameters, pretrained on the form of answers, not their content.

The script trains it to answer "Reverse the letters. abcde" with those letters in random order. So one sample in
120 is right by chance, and reinforcement learning has to do the rest. It takes two minutes on one core:

    python examples/small_model.py small
    tpo train --model small --task toy:reverse --task-options '{"length": 5, "examples": 0}' --max-tokens 8 \
        --micro-batch 256 --batches 75 --learning-rate 1e-4 --compare tpo:epochs=4,grpo:epochs=4

With 2 to 6 letters some questions are easy and some are hard, as in real data:

    python examples/small_model.py mixed --letters 4 --spread 2 --steps 1600
    tpo train --model mixed --task toy:reverse --task-options '{"length": 4, "spread": 2, "examples": 0}' ...
"""

from argparse import ArgumentParser
from random import Random

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from tpo.llm.tasks.toys import LETTERS, reverse, varied_length

BATCH, RATE = 96, 3e-3
USER, BOT, END = "<user>", "<bot>", "<end>"
QUESTION = str(reverse.__doc__)
TEMPLATE = (
    "{% for m in messages %}{{ '<user>' if m.role == 'user' else '<bot>' }}{{ m.content }}"
    "{{ '<end>' if m.role != 'user' }}{% endfor %}{{ '<bot>' if add_generation_prompt }}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with one token for each letter, and one for the question."""
    known = dict.fromkeys(["<pad>", END, USER, BOT, " ", QUESTION, *LETTERS])
    inner = Tokenizer(models.WordLevel({x: i for i, x in enumerate(known)}, unk_token="<pad>"))
    parts = "|".join([USER, BOT, END, QUESTION.replace(".", r"\."), "."])
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(parts), "isolated")
    inner.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        eos_token=END,
        additional_special_tokens=[USER, BOT],
        chat_template=TEMPLATE,
    )


def examples(draw: Random, letters: int, spread: int) -> list[tuple[str, str]]:
    """Questions of one length, and their letters in random order."""
    letters = varied_length(draw, letters, spread)
    asked = [reverse(draw, letters)[0] for _ in range(BATCH)]
    shuffled = ["".join(draw.sample(x, letters)) for x in asked]
    return [(f"{USER}{QUESTION} {x}{BOT}", y + END) for x, y in zip(asked, shuffled, strict=True)]


def main(folder: str, letters: int, spread: int, steps: int) -> None:
    torch.manual_seed(0)
    tok, draw = tokenizer(), Random(1)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tok),
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=4,
            num_attention_heads=4,
            max_position_embeddings=128,
            tie_word_embeddings=True,
            pad_token_id=tok.pad_token_id,
            eos_token_id=tok.eos_token_id,
            bos_token_id=tok.eos_token_id,
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: min(1, (i + 1) / 100) * (1.02 - i / steps)
    )
    for i in range(steps):
        asked = examples(draw, letters, spread)
        ids = torch.tensor([tok.encode(q + a) for q, a in asked])
        labels = ids.clone()
        labels[:, : len(tok.encode(asked[0][0]))] = -100  # no loss on the question
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if i % 100 == 0 or i == steps - 1:
            print(f"step {i + 1}/{steps}  loss {loss.item():.3f}", flush=True)
    model.save_pretrained(folder)
    tok.save_pretrained(folder)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters in {folder}")


if __name__ == "__main__":
    parser = ArgumentParser(description="Make a small model of letters.")
    parser.add_argument("folder", nargs="?", default="small")
    parser.add_argument("--letters", type=int, default=5)
    parser.add_argument("--spread", type=int, default=0, help="letters more or less")
    parser.add_argument("--steps", type=int, default=800)
    main(**vars(parser.parse_args()))
