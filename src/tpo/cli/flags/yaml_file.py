"""A YAML file of options, read as plain values; what is wrong with it is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def read_yaml(path: str) -> dict[str, Any]:
    """The options in a YAML file."""
    import yaml

    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} does not exist: give --config an existing YAML file")
    try:
        options = yaml.safe_load(Path(path).read_bytes())
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(options, dict):
        raise ValueError(f"{path} holds a {type(options).__name__}, expected option: value lines")
    return options
