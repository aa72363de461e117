"""Classes in a user's own file, written `FILE.py:CLASS` wherever a task or an objective is named.

A file is read before it is run: a missing file, class or method is an error before its imports cost any time.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

_SPEC = re.compile(r"(.+\.py):([A-Za-z_]\w*)")
_LOADED: dict[Path, Source] = {}
"""Files that have been run: each once in a process, as a module is imported once."""

_SPECS: dict[type, str] = {}
"""The name by which each class was loaded."""


class Source(NamedTuple):
    """A file that has been run, and the fingerprint of what was in it."""

    module: ModuleType
    fingerprint: str


class Expected(NamedTuple):
    """What a class must be: the word for it, the names it must define, a base class without them."""

    noun: str
    parts: Mapping[str, str]
    base: str
    see: str


def is_spec(text: str) -> bool:
    """Whether a name is `FILE.py:CLASS`."""
    return _SPEC.fullmatch(text) is not None


def class_name(spec: str) -> str:
    """`CLASS` of `FILE.py:CLASS`; any other name as it is."""
    return spec.rpartition(":")[2] if is_spec(spec) else spec


def split_options(text: str) -> list[str]:
    """["mine.py:Mine", "eta=0.5"] of "mine.py:Mine:eta=0.5", ["tpo", "eta=0.5"] of "tpo:eta=0.5"."""
    found = re.match(rf"{_SPEC.pattern}(?=:|$)", text)
    name, rest = (found[0], text[found.end() + 1 :]) if found else ("", text)
    parts = rest.split(":") if rest else []
    return [name, *parts] if name else parts or [""]


def load(spec: str, expected: Expected) -> Any:
    """The class of `FILE.py:CLASS`; a file, class or part that is missing is named."""
    path, name = _path_and_name(spec)
    node = _class_node(path, name)
    bases = {_last_name(base) for base in node.bases} if node else {""}
    if node and bases <= {expected.base, "Protocol"}:
        _refuse_missing(spec, expected, _names_in(node))
    found = getattr(_source(path).module, name)
    if not isinstance(found, type):
        raise TypeError(f"{name} in {path} is a {type(found).__name__}, expected a class")
    mine = [kind for kind in found.__mro__ if kind.__name__ != expected.base]
    fields = getattr(found, "__dataclass_fields__", ())
    _refuse_missing(spec, expected, {*fields, *(part for kind in mine for part in vars(kind))})
    _SPECS[found] = spec
    return found


def value(spec: str) -> Any:
    """What `FILE.py:NAME` is, once the file has been run."""
    path, name = _path_and_name(spec)
    _tree(path)
    module = _source(path).module
    if not hasattr(module, name):
        raise ValueError(f"{path} has no {name!r}: name what the file defines, as FILE.py:NAME")
    return getattr(module, name)


def spec_of(kind: type) -> str | None:
    """`FILE.py:CLASS` of a class that was loaded by it."""
    return _SPECS.get(kind)


def fingerprint(spec: str) -> str:
    """A short hash of the file as it was run, so that results of an edited file are not taken for its own."""
    return _source(_path_and_name(spec)[0]).fingerprint


def place(error: BaseException) -> str:
    """`FILE.py, line 3, in rewards` if an error comes from a user's file, else nothing."""
    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame for frame in frames if Path(frame.filename) in _LOADED]
    return f"{mine[-1].filename}, line {mine[-1].lineno}, in {mine[-1].name}" if mine else ""


def _path_and_name(spec: str) -> tuple[Path, str]:
    found = _SPEC.fullmatch(spec)
    if not found:
        raise ValueError(f"{spec!r} is not FILE.py:CLASS, such as mine.py:Mine")
    return Path(found[1]), found[2]


def _class_node(path: Path, name: str) -> ast.ClassDef | None:
    """The class as written; None if the file takes it from elsewhere."""
    tree = _tree(path)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if name in classes:
        return classes[name]
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    bound |= {a.asname or a.name for node in ast.walk(tree) for a in getattr(node, "names", ())
              if isinstance(a, ast.alias)}  # fmt: skip
    if name not in bound:
        raise ValueError(
            f"{path} has no class {name!r}. Its classes: {', '.join(classes) or 'none'}"
        )
    return None


def _tree(path: Path) -> ast.Module:
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: give an existing file as FILE.py:CLASS")
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise ValueError(f"{path}, line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:  # not text, or brackets without end
        raise ValueError(f"{path} is not Python: {error or type(error).__name__}") from None


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _names_in(node: ast.ClassDef) -> set[str]:
    """Names that the body of a class defines."""
    found = {x.name for x in node.body if isinstance(x, (ast.FunctionDef, ast.ClassDef))}
    targets: list[ast.expr] = [x.target for x in node.body if isinstance(x, ast.AnnAssign)]
    targets += [t for x in node.body if isinstance(x, ast.Assign) for t in x.targets]
    return found | {_last_name(target) for target in targets}


def _refuse_missing(spec: str, expected: Expected, names: set[str]) -> None:
    path, name = _path_and_name(spec)
    missing = [part for part in expected.parts if part.partition("(")[0] not in names]
    if missing:
        lines = "".join(f"\n  {part}: {expected.parts[part]}" for part in missing)
        raise TypeError(
            f"class {name} in {path} is not {expected.noun} yet. It misses:{lines}\nSee {expected.see}"
        )


def _source(path: Path) -> Source:
    """The file, run once."""
    where = path.resolve()
    if where not in _LOADED:
        digest = hashlib.sha256(where.read_bytes()).hexdigest()
        module = _module(where, f"tpo_user_code_{where.stem}_{digest[:8]}")
        _LOADED[where] = Source(module, digest[:12])
        try:
            _run(module, where)
        except BaseException:
            del _LOADED[where]
            raise
    return _LOADED[where]


def _module(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    return importlib.util.module_from_spec(spec)


def _run(module: ModuleType, path: Path) -> None:
    """Run the file as its module; files beside it can be imported."""
    sys.modules[module.__name__] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        assert module.__spec__ is not None
        assert module.__spec__.loader is not None
        module.__spec__.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{path.name} imports {error.name}, which is not installed", name=error.name
        ) from None
    except (Exception, SystemExit) as error:
        raise ValueError(f"{place(error) or path}: {type(error).__name__}: {error}") from error
