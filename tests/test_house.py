"""The house rules of CONTRIBUTING.md that a machine can check: sizes, where tests are, names, its own paths."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PACKAGE = ROOT / "src/tpo"
MODULE_LINES, PACKAGE_MODULES, FUNCTION_LINES, PARAMETERS = 300, 15, 40, 6

# What exceeds a limit, and why. An entry that is no longer needed fails the test, so these lists only shrink.
LONG_MODULES: dict[str, str] = {}
LONG_TESTS: dict[str, str] = {}
LARGE_PACKAGES = {
    "objectives": "one short file per objective or family",
}
LONG_FUNCTIONS: dict[str, str] = {}
MANY_PARAMETERS = {
    "llm/packed/attention.py: attend": "transformers calls attention functions like this",
    "llm/verl/loss.py: policy_loss": "verl calls policy losses like this",
    "objectives/returns.py: vtrace": "the quantities of its equation",
    "objectives/returns.py: retrace": "the quantities of its equation",
}


SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Function(NamedTuple):
    """A function or method: `MODULE: CLASS.NAME`, its lines without docstring, and its parameters."""

    place: str
    lines: int
    parameters: int


def modules(package: Path = PACKAGE) -> list[Path]:
    return sorted(package.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def functions(source: str, place: str) -> list[Function]:
    """Every function of a module; the lines of one inside another count for both."""
    return list(_functions(ast.parse(source), f"{place}: "))


def _functions(node: ast.AST, prefix: str) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield Function(prefix + child.name, _lines(child), len(_parameters(child)))
        inside = f"{prefix}{child.name}." if isinstance(child, SCOPES) else prefix
        yield from _functions(child, inside)


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without the docstring; decorators do not count."""
    first, last = function.lineno, function.end_lineno or 0
    if ast.get_docstring(function) is None:
        return last - first + 1
    docstring = function.body[0]
    return last - first - ((docstring.end_lineno or 0) - docstring.lineno)


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Named parameters, without `self` and `cls`."""
    found = function.args
    names = [one.arg for one in (*found.posonlyargs, *found.args, *found.kwonlyargs)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


Sizes = Iterable[tuple[str, int]]


def too_large(sizes: Sizes, limit: int, exceptions: dict[str, str]) -> list[str]:
    """What exceeds the limit without an exception, and exceptions that nothing needs."""
    above = [(name, size) for name, size in sizes if size > limit]
    found = [f"{name}: {size}, at most {limit}" for name, size in above if name not in exceptions]
    needed = {name for name, _ in above}
    return found + [f"{name}: remove the exception" for name in exceptions if name not in needed]


def every_function() -> list[Function]:
    return [found for path in modules() for found in functions(path.read_text(), name_of(path))]


def test_modules_are_short() -> None:
    sizes = [(name_of(path), len(path.read_text().splitlines())) for path in modules()]
    assert too_large(sizes, MODULE_LINES, LONG_MODULES) == []


def test_test_modules_are_short() -> None:
    sizes = [
        (str(path.relative_to(ROOT)), len(path.read_text().splitlines())) for path in modules(TESTS)
    ]
    assert len(sizes) > 100
    assert too_large(sizes, MODULE_LINES, LONG_TESTS) == []


def test_packages_have_few_modules() -> None:
    sizes = Counter(name_of(path.parent) for path in modules() if path.name != "__init__.py")
    assert too_large(sizes.items(), PACKAGE_MODULES, LARGE_PACKAGES) == []


def test_functions_are_short() -> None:
    sizes = [(found.place, found.lines) for found in every_function()]
    assert too_large(sizes, FUNCTION_LINES, LONG_FUNCTIONS) == []


def test_functions_have_few_parameters() -> None:
    sizes = [(found.place, found.parameters) for found in every_function()]
    assert too_large(sizes, PARAMETERS, MANY_PARAMETERS) == []


def test_a_size_is_counted_and_an_exception_must_be_needed() -> None:
    source = '''
class A:
    @staticmethod
    def f(a, /, b, *c, d=1, **e):
        """Two
        lines."""
        def g():
            pass
        return g
    def h(self, x): ...
'''
    assert functions(source, "m.py") == [
        Function("m.py: A.f", 4, 3),
        Function("m.py: A.f.g", 2, 0),
        Function("m.py: A.h", 1, 1),
    ]
    sizes = [("fine", 1), ("known", 9), ("new", 9)]
    assert too_large(sizes, 5, {"known": "", "fine": ""}) == [
        "new: 9, at most 5",
        "fine: remove the exception",
    ]


def test_tests_mirror_the_package() -> None:
    """tests/lab/tasks/test_*.py tests src/tpo/lab/tasks, tests/docs the documentation; the rest is at the top."""
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    assert Path("lab/tasks") in folders
    assert (ROOT / "docs/conf.py").is_file()
    folders.discard(Path("docs"))
    assert [str(f) for f in sorted(folders) if not (PACKAGE / f / "__init__.py").is_file()] == []


def test_test_modules_have_different_names() -> None:
    """pytest imports them by name alone, since their folders are no packages."""
    names = [path.name for path in TESTS.rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def exported(source: str, package: str) -> dict[str, bool]:
    """The public names of a package by its `__init__`, and whether each is a submodule that it imports as such.

    Those of `__all__`, or without one all that it binds without an underscore.
    """
    bound: dict[str, bool] = {}
    for node in ast.parse(source).body:
        for name, is_module in _bound(node, package):
            bound[name] = is_module
            if name == "__all__" and isinstance(node, ast.Assign):
                listed = ast.literal_eval(node.value)
    if "__all__" in bound:
        return {name: bound.get(name, False) for name in listed}
    return {name: is_module for name, is_module in bound.items() if not name.startswith("_")}


def _bound(node: ast.stmt, package: str) -> Iterator[tuple[str, bool]]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        whole = isinstance(node, ast.ImportFrom) and node.module == package
        for one in node.names:
            yield one.asname or one.name.partition(".")[0], whole and one.asname in (None, one.name)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name, False
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from ((one.id, False) for one in targets if isinstance(one, ast.Name))


def shadowed(source: str, package: str, submodules: set[str]) -> list[str]:
    """Public names that are also names of submodules, and are not those submodules."""
    public = exported(source, package)
    return sorted(name for name in submodules if public.get(name) is False)


INITS = sorted(PACKAGE.rglob("__init__.py"))


@pytest.mark.parametrize("path", INITS, ids=lambda p: name_of(p.parent))
def test_no_public_name_is_that_of_a_submodule(path: Path) -> None:
    """`from tpo.llm import train` must give the function, whatever was imported before."""
    folder = path.parent
    package = ".".join(["tpo", *folder.relative_to(PACKAGE).parts])
    packages = {one.name for one in folder.iterdir() if one.is_dir() and any(one.glob("*.py"))}
    below = packages | {one.stem for one in folder.glob("*.py")}
    assert shadowed(path.read_text(), package, below) == []


def test_a_name_that_shadows_a_module_is_found() -> None:
    listed = "from a.b import c, d\nfrom a import e\nx = 1\n__all__ = ['c', 'e', 'lazy']\n"
    assert shadowed(listed, "a", {"b", "c", "d", "e", "lazy"}) == ["c", "lazy"]
    unlisted = "from a import e\nfrom a.b import b as f\ndef c(): ...\nclass D: ...\n"
    assert shadowed(unlisted, "a", {"b", "c", "D", "e", "f"}) == ["D", "c", "f"]


def missing_paths(page: str) -> list[str]:
    """Paths in `code` that exist neither at the top nor in the package; a path may be a pattern."""
    paths = {word for word in re.findall(r"`([\w./*-]+)`", page) if "/" in word}
    return sorted(p for p in paths if not (any(ROOT.glob(p)) or any(PACKAGE.glob(p))))


def test_contributing_names_files_that_exist() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert missing_paths(page) == []
    assert missing_paths("`lab/tasks/` `docs/*.py` `lab/gone.py` `a/` `make` `x / y`") == [
        "a/",
        "lab/gone.py",
    ]


def unknown_names(words: Iterable[str]) -> list[str]:
    """Dotted names below the package whose module does not exist, or does not contain their last part."""
    return [word for word in words if not _known(word.split("."))]


def _known(parts: list[str]) -> bool:
    place = PACKAGE
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    module = place / "__init__.py"
    if parts and (place / f"{parts[0]}.py").is_file():
        module = place / f"{parts.pop(0)}.py"
    text = module.read_text() if module.is_file() else ""
    return all(re.search(rf"\b{part}\b", text) for part in parts)


def test_architecture_names_modules_that_exist_and_every_package() -> None:
    page = (ROOT / "docs/reference/architecture.rst").read_text()
    first = {path.stem for path in PACKAGE.iterdir()}
    dotted = [word for word in re.findall(r"``([\w.]+)``", page) if word.split(".")[0] in first]
    assert "lab.training.loop" in dotted
    assert unknown_names(dotted) == []
    assert unknown_names(["lab.studies.get_study", "lab.gone", "llm.runs.recipe.gone"]) == [
        "lab.gone",
        "llm.runs.recipe.gone",
    ]
    top = {path.stem for path in PACKAGE.glob("[a-z]*") if any(path.glob("*.py"))}
    modules = {path.stem for path in PACKAGE.glob("[a-z]*.py")} - {"version"}
    inside = {
        f"{path.parent.name}.{path.name}"
        for path in PACKAGE.glob("l*/*/")
        if any(path.glob("*.py"))
    }
    described = set(re.findall(r"^([a-z][a-z_.]*)  ", page, re.MULTILINE)) - {"package"}
    assert described == (top - {"lab", "llm"}) | modules | inside


def undefined_names(page: str) -> list[str]:
    """Names without a dot, and classes before one, that no module defines as a function, class or module."""
    words = {word.split(".")[0] for word in re.findall(r"``(\w+(?:\.\w+)?)``", page)}
    source = [path.read_text() for path in modules()]
    defined = {name for text in source for name in re.findall(r"\b(?:def|class) (\w+)", text)}
    places = {
        part for path in modules() for part in path.relative_to(PACKAGE).with_suffix("").parts
    }
    outside = {"tpo", "trainer", "optimizer", "pyproject", "log", "evaluations", "result"}
    return sorted(words - defined - places - outside)


def test_architecture_names_functions_and_classes_that_are_defined() -> None:
    page = (ROOT / "docs/reference/architecture.rst").read_text()
    assert "``TrainingRun``" in page
    assert undefined_names(page) == []
    assert undefined_names(page.replace("``TrainingRun``", "``Runner``")) == ["Runner"]
