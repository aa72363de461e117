"""`tpo verl`: train one of the paper's recipes on verl: write the data, then run verl's command."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

from tpo.cli.flags.kinds import OUT_FOLDER, OVERRIDE
from tpo.cli.flags.parser import reads
from tpo.options import NAME, one_of

RECIPES = ("gsm8k", "graph_color", "knights_knaves")
CONFIGS = "pkg://tpo.llm.verl.recipes"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo verl`"""
    command = commands.add_parser(
        "verl",
        help="train one of the paper's recipes with verl",
        description="Writes the data of the recipe as Parquet files if they are missing, then runs verl.",
    )
    command.add_argument(
        "recipe", type=reads(one_of(*RECIPES)), help=f"one of {', '.join(RECIPES)}"
    )
    command.add_argument(
        "overrides", nargs="*", type=reads(OVERRIDE), help="options of verl, as key=value"
    )
    command.add_argument(
        "--data",
        type=reads(OUT_FOLDER),
        default="tpo-data",
        help="folder of the data (default tpo-data)",
    )
    command.add_argument(
        "--task", type=reads(NAME), help="make the data from another task, such as gsm8k:FOLDER"
    )
    command.add_argument("--only-data", action="store_true", help="write the data and exit")
    command.add_argument("--dry-run", action="store_true", help="print verl's command and exit")
    command.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Write missing data, then run verl and return its exit status."""
    folder = Path(args.data).absolute() / args.recipe
    command = verl_command(args.recipe, folder, args.overrides)
    if args.dry_run:
        print(shlex.join(command))
        return 0
    if not (folder / "test.parquet").exists():
        from tpo.llm.verl.data import prepare

        train, test = prepare(args.recipe, folder, **({"name": args.task} if args.task else {}))
        print(f"wrote {train} and {test}")
    if args.only_data:
        return 0
    _need_verl()
    print(shlex.join(command), flush=True)
    return subprocess.run(command).returncode


def verl_command(recipe: str, folder: Path, overrides: list[str]) -> list[str]:
    """verl's command line for a recipe; overrides come last and win."""
    return [
        sys.executable,
        *("-m", "verl.trainer.main_ppo"),
        *("--config-path", CONFIGS, "--config-name", recipe),
        f"data.train_files={folder}/train.parquet",
        f"data.val_files={folder}/test.parquet",
        *overrides,
    ]


def _need_verl() -> None:
    from tpo.cli.doctor import PARTS, installed

    missing = [name for name in PARTS["verl"] if installed(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"tpo verl needs {', '.join(missing)}: pip install 'tpo[verl]', in a separate environment",
            name=missing[0],
        )
