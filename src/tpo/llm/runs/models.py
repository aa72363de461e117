"""Models by name: a hub name, at a revision or not; a folder; or a GGUF file, which is converted once."""

from __future__ import annotations

import hashlib
import re
import runpy
import shutil
import urllib.error
import urllib.request
from collections.abc import Collection, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, NamedTuple

from tpo.checks import close_match
from tpo.llm.runs.artifacts import JsonFile
from tpo.llm.runs.checkpoints import broken_file
from tpo.options import shown
from tpo.storage.broken import json_object
from tpo.storage.files import write_json

CONVERTED = JsonFile(
    "converted.json", {}, "remove the folder: the .gguf file is then converted again"
)
"""In a converted model's folder: the size and digest of its .gguf file."""
READ = ("config.json", "generation_config.json", "tokenizer*.json", "*.safetensors*")
"""Files of a model that `from_pretrained` reads."""


class Source(NamedTuple):
    """Where a model is read from."""

    name: str
    """a folder, or a name on the hub"""
    revision: str | None = None
    """on the hub: a commit, branch or tag; None for the newest commit"""

    @property
    def options(self) -> dict[str, str]:
        """For `from_pretrained`, beside the name."""
        return {"revision": self.revision} if self.revision else {}

    def at_commit(self) -> Source:
        """With the commit that was read as the revision; a folder as it is. Call it after a first read."""
        from huggingface_hub import try_to_load_from_cache

        if Path(self.name).is_dir():
            return self
        for file in ("config.json", "tokenizer_config.json"):
            path = try_to_load_from_cache(self.name, file, revision=self.revision)
            if isinstance(path, str):
                snapshot = Path(path).parent
                if fault := broken_file(snapshot, READ):
                    raise ValueError(
                        f"model {self.name} in the cache: {fault}: remove {snapshot.parents[1]}, and it is "
                        "downloaded again"
                    )
                return self._replace(revision=snapshot.name)
        return self


def local_copy(model: str, folder: Path) -> Source:
    """Where NAME, NAME@REVISION or a folder is read from; a .gguf file is converted to `folder`."""
    source = local_path(model)
    if source is None:
        name, _, revision = model.partition("@")
        return Source(name, revision or None)
    if source.is_dir():
        _check_files(source, READ)
        return Source(str(source))
    if saved_from(folder) != _source_record(source):
        _convert(source, folder)
    return Source(str(folder))


def local_path(model: str) -> Path | None:
    """The folder or file of a model; None for a name on the hub. What is neither is an error."""
    source = Path(model).expanduser()
    if source.is_dir():
        if not (source / "config.json").exists():
            raise FileNotFoundError(
                f"model {model} is a folder without config.json: give one that save_pretrained wrote"
            )
        return source
    is_path = model.endswith(".gguf") or model[:1] in "./~" or model.count("/") > 1
    if is_path and not source.is_file():
        raise FileNotFoundError(f"model {model} does not exist: {_GIVE}")
    return source if model.endswith(".gguf") else None


_GIVE = "give a folder, a .gguf file, or a hub name such as Qwen/Qwen3-1.7B"


def _check_file(source: Path) -> None:
    with source.open("rb") as file:
        if source.suffix != ".gguf" or file.read(4) != b"GGUF":
            raise ValueError(f"model {source} is a file, and not a GGUF file: {_GIVE}")


def check(model: str) -> None:
    """Raise if a model cannot be found, before torch is imported: here, in the hub's cache, or on the hub."""
    local = local_path(model)
    if Path(model).is_file():
        _check_file(Path(model))
    if local is not None:
        if local.is_dir():
            _check_config(local)
        return
    name, _, revision = model.partition("@")
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        raise ValueError(
            f"model {model!r} is not a name of the hub, and not a folder here: {_GIVE}"
        )
    from huggingface_hub import try_to_load_from_cache

    if not isinstance(try_to_load_from_cache(name, "config.json", revision=revision or None), str):
        _ask_hub(name)


def _check_files(folder: Path, names: Sequence[str]) -> None:
    if fault := broken_file(folder, names):
        raise ValueError(f"model {folder}: {fault}: restore the file, or give another folder")


def _check_config(folder: Path) -> None:
    """Raise if config.json cannot be read, or names no architecture that transformers has."""
    _check_files(folder, ("config.json",))
    config = json_object((folder / "config.json").read_bytes())
    known, found = _model_types(), config.get("model_type")
    if known and found not in known and "auto_map" not in config:
        raise ValueError(
            f"model {folder}: config.json has model_type {shown(found)}, which the installed transformers does "
            f"not know.{close_match(found, known)} Give a folder that save_pretrained wrote, or another "
            "transformers"
        )


def _model_types() -> Collection[str]:
    """What transformers can read, without importing it; nothing where it has no such list."""
    package = PathFinder.find_spec("transformers")
    path = Path(package.origin or "").parent / "models/auto/auto_mappings.py" if package else None
    if path is None or not path.is_file():
        return ()
    found: dict[str, str] = runpy.run_path(str(path)).get("CONFIG_MAPPING_NAMES", {})
    return found.keys()


def _ask_hub(name: str) -> None:
    """Raise if the hub has no such model, or cannot be reached; a slow hub is asked again for the model."""
    from huggingface_hub import constants, get_token

    token = get_token()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"{constants.ENDPOINT}/api/models/{name}", headers=headers)
    fault = f"model {name!r} is not a folder here, nor in the hub's cache, and the hub"
    try:
        if constants.HF_HUB_OFFLINE:
            raise urllib.error.URLError("HF_HUB_OFFLINE is set")
        urllib.request.urlopen(request, timeout=HUB_ANSWERS_WITHIN).close()
    except urllib.error.HTTPError as error:
        if error.code in (401, 403, 404):
            raise OSError(
                f"{fault} shows none of that name (status {error.code}): {_GIVE}; for a private or gated "
                "one, log in with `hf auth login`"
            ) from None
    except urllib.error.URLError as error:
        if not isinstance(error.reason, TimeoutError):
            raise OSError(f"{fault} cannot be reached ({error.reason}): {_GIVE}") from None
    except TimeoutError:
        pass


HUB_ANSWERS_WITHIN = 1.5
"""Seconds."""


def saved_from(folder: Path) -> dict[str, Any] | None:
    """The record of the source that `save_whole` saved; None where a file of the folder is broken."""
    return None if broken_file(folder, (CONVERTED.name, *READ)) else CONVERTED.read(folder)


def _source_record(source: Path) -> dict[str, Any]:
    """The content of a file, whatever its name and time."""
    with open(source, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": source.stat().st_size, "sha256": digest}


def _convert(source: Path, folder: Path) -> None:
    import torch
    from gguf import GGUFReader
    from transformers import AutoModelForCausalLM, AutoTokenizer

    parent, fields = str(source.parent), GGUFReader(source)
    tokenizer = AutoTokenizer.from_pretrained(parent, gguf_file=source.name)
    read = AutoModelForCausalLM.from_pretrained(parent, gguf_file=source.name, dtype=torch.float32)
    # transformers neither saves nor trains a model that it read from GGUF, so its weights go into a clean one
    plain = {k: v for k, v in read.config.to_dict().items() if k != "quantization_config"}
    clean, info = type(read).from_pretrained(
        None,
        config=type(read.config)(**plain),
        state_dict=read.state_dict(),
        dtype=torch.float32,
        output_loading_info=True,
    )
    if info["missing_keys"]:
        raise ValueError(f"{source} lacks {', '.join(sorted(info['missing_keys']))}")
    clean.generation_config = read.generation_config
    if _field(fields, "tokenizer.ggml.pre") == "smollm":
        _split_digits(tokenizer)
    end = _field(fields, "tokenizer.ggml.eos_token_id")
    if end is not None:
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(end)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    save_whole(folder, _source_record(source), tokenizer, clean)


def save_whole(folder: Path, source: Mapping[str, Any], *parts: Any) -> None:
    """Save a record of the source, and each part by `save_pretrained`; the folder appears once all is saved."""
    unfinished = folder.with_name(f"{folder.name}.part")
    for path in (unfinished, folder):
        shutil.rmtree(path, ignore_errors=True)
    unfinished.mkdir(parents=True)
    write_json(unfinished / CONVERTED.name, source)
    for part in parts:
        part.save_pretrained(unfinished)
    unfinished.replace(folder)


def _split_digits(tokenizer: Any) -> None:
    """SmolLM's tokenizer splits digits; the one that transformers builds from its GGUF file does not."""
    from tokenizers import pre_tokenizers

    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )


def _field(reader: Any, name: str) -> Any:
    """A field of a GGUF file; None if it has none of that name."""
    field = reader.get_field(name)
    return None if field is None else field.contents()


def read_tokenizer(model: Source) -> Any:
    """The tokenizer, with a padding token."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(model.name, **model.options)
    except OSError as error:
        raise OSError(
            f"model {'@'.join(filter(None, model))!r} is not a folder here, and cannot be read from the hub: "
            f"give a folder, a .gguf file, or a hub name such as Qwen/Qwen3-1.7B. {error}"
        ) from error
    except Exception as error:  # the library of tokenizers has no error of its own
        raise ValueError(
            f"the tokenizer of model {model.name} cannot be read ({' '.join(str(error).split())}): "
            "restore its files, or give another model"
        ) from error
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def read_model(model: Source, like: Any) -> Any:
    """The model, not to be trained, on the device and in the precision of the model `like`."""
    from transformers import AutoModelForCausalLM

    weight = next(like.parameters())
    read = AutoModelForCausalLM.from_pretrained(model.name, dtype=weight.dtype, **model.options)
    return read.to(weight.device).eval().requires_grad_(False)
