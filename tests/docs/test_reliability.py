"""The page "What you can rely on": its counts are counted here, and what its commands name exists."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from typing import Any

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
    assert len(laws()) > stated("laws") >= 100
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
    rows = re.findall(r"in at most (\d+)%[^|]* \| ([\d.]+)% to ([\d.]+)%", PAGE)
    tested = re.findall(r"^MOST = ([\d.]+)$", RATES, re.MULTILINE)
    assert len(rows) == 6
    for most, low, high in rows:
        assert float(low) <= float(high) <= int(most) == 100 * float(tested[0])


def test_the_command_of_laws_selects_them() -> None:
    """In one folder, of which few tests are laws."""
    assert "`pytest tests -m hypothesis`" in PAGE
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "hypothesis"]
    there = ["tests/storage/test_crashes.py", "tests/storage/test_store.py"]
    done = subprocess.run([*command, *there], cwd=ROOT, capture_output=True, text=True, check=True)
    (crashes,) = [line for line in done.stdout.splitlines() if line.startswith("tests/")]
    assert crashes == f"{there[0]}: {sum(law.startswith('test_crashes') for law in laws())}"


def kept(name: str) -> Any:
    """What a command wrote; None where the page says that nothing is kept yet."""
    path = ROOT / f"docs/evidence/checks/{name}.json"
    (said,) = re.findall(rf"{name}\.json`, by `make \w+` \| (yes|not yet) \|", PAGE)
    assert path.exists() == (said == "yes")
    if not path.exists():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    assert re.fullmatch(r"[0-9a-f]{12}", found["commit"])  # of code without changes
    return found


RATES_OF = {
    "a comparison is significant": "No difference: one comparison is significant",
    "does not hold in": "No difference: a claim about 32 comparisons does not hold",
    "are significant together": "No difference: 32 comparisons together are significant",
    "published number of an equal experiment": "No difference: a published number differs",
    "steps of an equal experiment": "No difference: published steps differ",
    "known value is outside": "No difference: the range of the mean excludes it",
}
"""Words of the lines of the page, and the tables of tools/verdict_rates.py that they are of."""
HEAVY = "heavy tail (log-normal)"


def test_stated_rates_are_those_that_were_kept() -> None:
    found = kept("verdict_rates")
    assert stated("simulations with 3, 5, 10 and 20 seeds") == found["repeats"]
    assert found["seeds"] == [3, 5, 10, 20]
    for words, title in RATES_OF.items():
        (line,) = [line for line in PAGE.splitlines() if line.startswith("| ") and words in line]
        rows = found["rates"][title]
        rates = [100 * rate for kind, row in rows.items() if kind != HEAVY for rate in row]
        assert f"{min(rates):.1f}% to {max(rates):.1f}%" in line
    alone = found["rates"]["the same without a correction for their number"]
    assert f"without the correction up to {100 * max(map(max, alone.values())):.1f}%" in PAGE
    differ, outside = (
        f"{100 * max(found['rates'][RATES_OF[words]][HEAVY]):.1f}%"
        for words in ("published number of an equal experiment", "known value is outside")
    )
    assert f"differ in up to {differ}, and known values are outside in up to {outside}" in PAGE
    each = RATES.count("(n, REPEATS, kind) <= MOST") * 4 * len(found["seeds"])  # kinds of seeds
    assert stated("rates, each at most") == each + 1  # of steps


def test_stated_kills_and_mutants_are_those_that_were_kept() -> None:
    if lab := kept("kills_of_lab"):
        tried = sum(one["commands"] + one["workers"] for one in lab["runs"].values())
        survived = sum(one["survived"] for one in lab["runs"].values())
        assert stated("of the lab") == tried == survived
        assert stated("of them of a worker") == sum(x["workers"] for x in lab["runs"].values())
    if training := kept("kills_of_training"):
        assert stated("of `tpo train`") == training["kills"]
        assert training["equal"] == training["runs"]
    if mutants := kept("mutants"):
        outcomes = [*mutants["mutants"].values()]
        assert outcomes.count("killed") == stated("fail the tests that they name")
        assert outcomes.count("as stated") == stated("survives for a stated reason")
        assert len(outcomes) == stated("mutants")


def test_so_many_commands_are_tried_at_least() -> None:
    least = sum(
        int(number)
        for name in ("test_every_option.py", "test_every_method_option.py")
        for number in re.findall(
            r"assert len\(cases\) > (\d+)", (ROOT / "tests/cli" / name).read_text(encoding="utf-8")
        )
    )
    assert least >= stated("commands, each with one wrong value") >= 5000


def test_every_kept_output_is_written_once_a_week() -> None:
    weekly = (ROOT / ".github/workflows/weekly.yml").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"schedule:\n +- cron: \"0 \d+ \* \* \d\"\n", weekly)
    (targets,) = re.findall(r"target: \[(.*)\]", weekly)
    written = re.findall(r"checks/(\w+\.json)`, by `make (\w+)`", PAGE)
    assert {target for _, target in written} == {*targets.split(", ")}
    for name, target in written:
        recipe = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
        assert f"--out $(CHECKS)/{name}" in recipe[0]


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
