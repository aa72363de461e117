"""Every test asserts something: itself, or through a helper that does."""

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
EXPECTS = ("raises", "warns", "fail")
"""Functions of pytest that fail a test."""


def without_assertion(source: str, helpers: frozenset[str] = frozenset()) -> list[str]:
    """The tests of a module that neither assert nor call what does; `helpers` are imported."""
    tree = ast.parse(source)
    found = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
    asserting = _asserting(found, helpers)
    tests = [node for node in found if node.name.startswith("test_")]
    return [node.name for node in tests if not _asserts(node, asserting)]


def _asserting(functions: list[ast.FunctionDef], helpers: frozenset[str]) -> frozenset[str]:
    """Names of functions and methods that assert, or call one of these."""
    known, before = helpers, frozenset("?")
    while known != before:
        before = known
        known |= {node.name for node in functions if _asserts(node, known)}
    return known


def _asserts(function: ast.AST, known: frozenset[str]) -> bool:
    return any(
        isinstance(node, ast.Assert) or (isinstance(node, ast.Call) and _fails(node.func, known))
        for node in ast.walk(function)
    )


def _fails(called: ast.expr, known: frozenset[str]) -> bool:
    """Whether a call can fail the test: pytest's, NumPy's `assert_...`, or a helper's."""
    if isinstance(called, ast.Name):
        return called.id in known
    if not isinstance(called, ast.Attribute):
        return False
    of_pytest = isinstance(called.value, ast.Name) and called.value.id == "pytest"
    return called.attr.startswith("assert_") or (
        called.attr in EXPECTS if of_pytest else called.attr in known
    )


@cache
def helpers_of(path: Path) -> frozenset[str]:
    """Names of helpers that assert, of the modules of the tests that this one imports from."""
    found: frozenset[str] = frozenset()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in (node.module, *(f"{node.module}.{one.name}" for one in node.names)):
                for other in TESTS.rglob(f"{name.replace('.', '/')}.py"):
                    tree = ast.parse(other.read_text())
                    inside = [one for one in ast.walk(tree) if isinstance(one, FUNCTIONS)]
                    found |= _asserting(inside, helpers_of(other))
    return found


def test_every_test_asserts() -> None:
    found = [
        f"{path.relative_to(TESTS)}: {name}"
        for path in sorted(TESTS.rglob("test_*.py"))
        for name in without_assertion(path.read_text(), helpers_of(path))
    ]
    assert found == []


def test_a_test_without_an_assertion_is_found() -> None:
    source = """
def test_asserts(): assert f()
def test_expects():
    with pytest.raises(ValueError): f()
def test_compares(): np.testing.assert_allclose(f(), 1)
def helper(x): assert x
def further(x): helper(x)
def test_by_a_helper(): further(f())
def test_by_an_imported_helper(): check(f())
def test_runs(): f()
def test_calls_what_another_library_raises(): other.raises(ValueError)
"""
    assert without_assertion(source, frozenset({"check"})) == [
        "test_runs",
        "test_calls_what_another_library_raises",
    ]
