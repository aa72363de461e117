"""The page "What you can rely on": its counts are counted here, and what its commands name exists."""

import ast
import re
import tomllib

import tpo
from support import ROOT

RATES = (ROOT / "tests/stats/test_verdict_rates.py").read_text(encoding="utf-8")
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


def declared_mutants() -> list[dict[str, object]]:
    """Of all tables."""
    tables = sorted((ROOT / "tools/mutants").glob("*.toml"))
    return [row for path in tables for row in tomllib.loads(path.read_text("utf-8")).values()]


def default_kills(tool: str) -> int:
    """Kills of each kind of run, unless the command says otherwise."""
    text = (ROOT / "tools" / tool).read_text(encoding="utf-8")
    return int(re.findall(r'"--kills", type=int, default=(\d+)', text)[0])


def kinds_of_runs() -> int:
    """The entries of RUNS in tools/kill_runs.py."""
    tree = ast.parse((ROOT / "tools/kill_runs.py").read_text(encoding="utf-8"))
    (runs,) = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "RUNS"
    ]
    assert isinstance(runs, ast.Dict)
    return len(runs.keys)


def test_objectives_laws_and_mutants_are_as_many_as_the_page_says() -> None:
    assert {int(n) for n in re.findall(r"(\d+) objectives", PAGE)} == {len(tpo.list_objectives())}
    assert len(laws()) >= stated("laws") >= 100
    mutants = declared_mutants()
    survivors = sum("survives" in mutant for mutant in mutants)
    assert len(mutants) == stated("mutants") >= 60
    assert survivors == stated("survives for a stated reason")
    assert stated("fail the tests that they name") == len(mutants) - survivors


def test_kills_are_as_many_as_the_tools_try() -> None:
    of_lab, of_training = default_kills("kill_runs.py"), default_kills("kill_trainings.py")
    assert stated("of the lab") == of_lab * kinds_of_runs()
    assert stated("of `tpo train`") == of_training
    assert stated("kills at random moments") == stated("of the lab") + of_training
    assert stated("survived") == stated("kills at random moments")
    target = re.findall(r"^kills:.*## (\d+) kills", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert int(target[0]) == stated("kills at random moments")


def test_the_stated_rates_are_within_the_bound_that_is_tested() -> None:
    rows = re.findall(r"in at most (\d+)% \| ([\d.]+)% to ([\d.]+)%", PAGE)
    tested = re.findall(r"^MOST = ([\d.]+)$", RATES, re.MULTILINE)
    assert len(rows) == 5
    for most, low, high in rows:
        assert float(low) <= float(high) <= int(most) == 100 * float(tested[0])


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
