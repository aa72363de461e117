r"""Make a language model for a laptop: 0.9M parameters, pretrained on the form of answers, not their content.

The script trains it to answer "Reverse the letters. abcde" with those letters in random order. So one sample in
120 is right by chance, and reinforcement learning has to do the rest. It takes two minutes on one core:

    python examples/small_model.py small
    tpo train --model small --task toy:reverse --task-options '{"length": 5, "examples": 0}' --max-tokens 8 \
        --micro-batch 256 --batches 75 --learning-rate 1e-4 --compare tpo:epochs=4,grpo:epochs=4

With 2 to 6 letters some questions are easy and some are hard, as in real data:

    python examples/small_model.py mixed --letters 4 --spread 2 --steps 1600
    tpo train --model mixed --task toy:reverse --task-options '{"length": 4, "spread": 2, "examples": 0}' ...

With --right 0.25 a quarter of the answers it learns from are right, as in the model of `tpo demo --llm`.
"""

from argparse import ArgumentParser
from pathlib import Path

from tpo.llm.small_model import Pretraining, pretrain


def main(folder: str, letters: int, spread: int, right: float, steps: int) -> None:
    data = Pretraining(letters, spread, right, steps)

    def show(step: int, loss: float) -> None:
        if step % 100 == 1 or step == data.steps:
            print(f"step {step}/{data.steps}  loss {loss:.3f}", flush=True)

    parameters = pretrain(Path(folder), data, show)
    print(f"{parameters:,} parameters in {folder}")


if __name__ == "__main__":
    parser = ArgumentParser(description="Make a small model of letters.")
    parser.add_argument("folder", nargs="?", default="small")
    parser.add_argument("--letters", type=int, default=5)
    parser.add_argument("--spread", type=int, default=0, help="letters more or less")
    parser.add_argument("--right", type=float, default=0.0, help="share of right answers")
    parser.add_argument("--steps", type=int, default=800)
    main(**vars(parser.parse_args()))
