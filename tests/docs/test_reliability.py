"""The page "What you can rely on": its counts are counted here, and what its commands name exists."""

import ast
import re
import tomllib

from support import ROOT

PAGE = (ROOT / "docs/reference/reliability.md").read_text(encoding="utf-8")


def stated(words: str) -> int:
    """The number before these words on the page."""
    found = re.findall(rf"([\d,]+) {words}", PAGE)
    assert len(found) == 1, words
    return int(found[0].replace(",", ""))


def laws() -> list[str]:
    """Tests that hypothesis gives random inputs."""
    return [
        f"{path.name}: {test.name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for test in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_")
        if any(ast.unparse(one).startswith("given(") for one in test.decorator_list)
    ]


def test_there_are_as_many_laws_and_mutants_as_the_page_says() -> None:
    tables = (ROOT / "tools/mutants").glob("*.toml")
    mutants = sum(len(tomllib.loads(path.read_text(encoding="utf-8"))) for path in tables)
    assert len(laws()) > stated("laws") >= 100
    assert mutants >= stated("mutants") >= 60


def test_files_and_targets_of_the_commands_exist() -> None:
    commands = re.findall(r"`(pytest|make|python) ([^`]+)`", PAGE)
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(commands) > 5
    for program, words in commands:
        for word in words.split():
            if program == "make":
                assert word in targets
            elif "/" in word:
                assert (ROOT / word.partition("::")[0]).exists(), word
