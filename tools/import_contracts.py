"""A contract of import-linter for what its graph cannot see: modules that are imported by a name in a string.

`import_module("tpo.x.y")`, the same with an f-string, `__import__`, and `python -m tpo.x.y` in a list of words.
Such a name must lie in the importing package, or in one that the contract allows it; a name without a literal
beginning is an error, except in the modules that `open_names` lists.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from importlinter import Contract, ContractCheck, fields, output

IMPORTERS = ("import_module", "__import__")


class DynamicImports(Contract):
    """A module named in a string is one of the importing package's own."""

    package = fields.StringField()
    source_root = fields.StringField()
    allowed = fields.SetField(subfield=fields.StringField(), required=False)
    """"IMPORTER -> PREFIX", where a package may name modules of another"""
    open_names = fields.SetField(subfield=fields.StringField(), required=False)
    """modules that import what their user names"""

    def check(self, graph: Any, verbose: bool) -> ContractCheck:
        """Every name in a string of every module."""
        wrong = [
            f"{module} (line {line}) imports {name or 'a name that is not literal'}"
            for module, line, name in dynamic_imports(Path(self.source_root), self.package)
            if not self._may(module, name)
        ]
        return ContractCheck(kept=not wrong, metadata={"wrong": wrong})

    def _may(self, module: str, name: str) -> bool:
        if not name:
            return module in (self.open_names or ())
        own = ".".join(module.split(".")[:2])
        pairs = (pair.split(" -> ") for pair in self.allowed or ())
        prefixes = [own, *(prefix for importer, prefix in pairs if importer == own)]
        return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)

    def render_broken_contract(self, check: ContractCheck) -> None:
        """One line for each."""
        for line in check.metadata["wrong"]:
            output.print_error(line, bold=False)
        output.new_line()


def dynamic_imports(root: Path, package: str) -> Iterator[tuple[str, int, str]]:
    """(module, line, imported name) of every dynamic import under root/package; "" where it is not literal.

    Names outside of the package are left out.
    """
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for name in _names(node):
                if not name or name.split(".")[0] == package:
                    yield module, node.lineno, name


def _names(node: Any) -> Iterator[str]:
    if isinstance(node, ast.Call) and node.args:
        called = (
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        )
        if called in IMPORTERS:
            yield _beginning(node.args[0])
    if isinstance(node, (ast.List, ast.Tuple)):
        words = [_beginning(word) for word in node.elts]
        yield from (after for word, after in itertools.pairwise(words) if word == "-m")


def _beginning(node: ast.expr) -> str:
    """What a string literal, or an f-string, begins with; "" where nothing is literal."""
    if isinstance(node, ast.IfExp):
        return _beginning(node.body) or _beginning(node.orelse)
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    literal = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return str(node.value).rstrip(".") if literal else ""
