"""Kinds of options that only a command line has: folders, files, and lists of methods."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from tpo.lab.names import SCALES
from tpo.options import Kind, one_of


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and not re.search(r"[\0-\x1f\x7f]", value)


def _can_be_written(path: Path) -> bool:
    """Whether a folder is there and can be written to, or can be made."""
    for one in (path, *path.absolute().parents):
        if one.exists():
            return one.is_dir() and os.access(one, os.W_OK | os.X_OK)
    return False


def _out_folder(value: Any) -> bool:
    try:
        return _is_text(value) and _can_be_written(Path(value))
    except OSError:  # a name that is too long
        return False


def _out_file(value: Any) -> bool:
    try:
        path = Path(value) if _is_text(value) else None
        return path is not None and not path.is_dir() and _can_be_written(path.absolute().parent)
    except OSError:
        return False


def _in_existing_folder(value: Any) -> bool:
    return _out_file(value) and Path(value).absolute().parent.is_dir()


def _readable(value: Any) -> bool:
    try:
        return _is_text(value) and Path(value).exists() and os.access(value, os.R_OK)
    except OSError:
        return False


OUT_FOLDER = Kind(
    "a folder to write to, new or existing, and not at or below a file", _out_folder, symbol="DIR"
)
OUT_FILE = Kind("a file to write, and not a folder or below a file", _out_file, symbol="FILE")
TABLE_FILE = Kind(
    "- or a file to write in a folder that exists",
    lambda v: v == "-" or _in_existing_folder(v),
    symbol="FILE",
)
FOLDER = Kind("an existing folder", lambda v: _readable(v) and Path(v).is_dir(), symbol="DIR")
FILE = Kind("an existing file", lambda v: _readable(v) and Path(v).is_file(), symbol="FILE")
DOWNLOADED_FILE = Kind(
    "an existing file, or nothing to download it",
    lambda v: v == "" or FILE.allowed(v),
    symbol="FILE",
)
RESULTS = Kind(
    "an existing folder of results, or a .json file of the evidence", _readable, symbol="DIR"
)
METHODS = Kind(
    "names with commas between, such as tpo,grpo",
    lambda v: isinstance(v, str) and all(one.strip() for one in v.split(",")),
    symbol="A,B",
)
SCALE = one_of(*SCALES)
AXIS = Kind(
    "KEY=VALUE such as H=7",
    lambda v: isinstance(v, str) and re.fullmatch(r"[^=,\s]+=[^=,]+(,[^=,]+)*", v) is not None,
    symbol="KEY=VALUES",
)
ADDRESS = Kind(
    "HOST:PORT of a Ray cluster, or auto",
    lambda v: isinstance(v, str) and re.fullmatch(r"auto|(ray://)?[\w.-]+:\d{1,5}", v) is not None,
    symbol="HOST:PORT",
)
SERVICE = Kind(
    "tensorboard, wandb or wandb:PROJECT",
    lambda v: isinstance(v, str) and re.fullmatch(r"tensorboard|wandb(:.+)?", v) is not None,
    symbol="SERVICE",
)
OVERRIDE = Kind(
    "an option of verl as key=value",
    lambda v: isinstance(v, str) and re.fullmatch(r"[^=\s]+=.*", v, re.DOTALL) is not None,
    symbol="KEY=VALUE",
)
