"""Every code block of every page: Python names exist, commands parse, TOML, YAML and JSON are valid."""

import argparse
import ast
import csv
import importlib
import inspect
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tpo
from support import ROOT
from tpo.cli import parser

DOCS = ROOT / "docs"
FENCE = re.compile(r"^ *(`{3,})(\S[^\n]*)?\n(.*?)^ *\1 *$", flags=re.DOTALL | re.MULTILINE)
DIRECTIVE = re.compile(
    r"^\.\. code-block:: *(\S+)\n((?:[ \t]+:[^\n]*\n)*)\n((?:[ \t]+[^\n]*\n|\n)+)", re.MULTILINE
)
SHELL = ("console", "bash", "sh", "shell", "text", "")
PLACEHOLDER = re.compile(r"\.\.\.|…|<\w+>|^[A-Z]+$")


class Block(NamedTuple):
    """A code block: its language and its text."""

    kind: str
    text: str


def pages() -> list[Path]:
    """Every page that people read, but for those that the build writes."""
    generated = (DOCS / "_build", DOCS / "reference/objectives")
    written = [*DOCS.rglob("*.md"), *DOCS.rglob("*.rst"), *ROOT.glob("*.md")]
    return sorted(path for path in written if not any(map(path.is_relative_to, generated)))


def blocks(text: str) -> Iterator[Block]:
    """Fenced blocks, MyST's `{code-block}` included, and reStructuredText's. Cells are run by the build."""
    for _, info, body in FENCE.findall(text):
        directive = re.fullmatch(r"\{code-block\} *(\w*).*", info)
        kind = directive[1] if directive else info.partition(" ")[0]
        yield Block(kind, re.sub(r"\A(:[^\n]*\n)+", "", body) if directive else body)
    for kind, _, body in DIRECTIVE.findall(text):
        yield Block(kind, inspect.cleandoc("\n" + body) + "\n")


def commands(block: Block) -> list[str]:
    """The command lines of a block that call `tpo`, continued lines joined."""
    if block.kind not in SHELL:
        return []
    lines = block.text.replace("\\\n", " ").splitlines()
    typed = (re.sub(r"^\s*(\$ )?", "", line) for line in lines)
    return [line for line in typed if re.match(r"(\w+=\S+ +)*tpo ", line)]


def arguments(command: str) -> list[str]:
    """What the shell hands to `tpo`: comments, pipes and redirections are not its own."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words = list(lexer)
    words = words[words.index("tpo") + 1 :]
    ends = [i for i, word in enumerate(words) if set(word) <= set("|&;<>")]
    return words[: min(ends, default=len(words))]


def subcommands() -> set[str]:
    (choices,) = (
        action.choices
        for action in parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return set(choices)


def resolved(node: ast.AST, names: dict[str, Any]) -> Any:
    """The object that a name or a chain of attributes stands for, if it comes from tpo; else None."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = resolved(node.value, names)
        if inspect.ismodule(owner) or inspect.isclass(owner):
            return getattr(owner, node.attr)
    return None


def imported(tree: ast.AST) -> dict[str, Any]:
    """What the imports of a block bind from tpo; an import that does not exist raises."""
    names: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tpo":
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                names[alias.asname or alias.name] = getattr(module, alias.name)
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "tpo":
                    module = importlib.import_module(alias.name)
                    names[alias.asname or "tpo"] = module if alias.asname else tpo
    return names


def check_call(call: ast.Call, names: dict[str, Any]) -> None:
    """The keywords of a call are parameters of what it calls, and `tpo.objective` knows name and options."""
    called = resolved(call.func, names)
    if not callable(called):
        return
    constants = {k.arg: k.value.value for k in call.keywords if isinstance(k.value, ast.Constant)}
    if called is tpo.objective and call.args and isinstance(call.args[0], ast.Constant):
        name = str(call.args[0].value)
        if name not in names.get("registered", ()):
            tpo.objective(name, **{k: v for k, v in constants.items() if k})
    parameters = inspect.signature(called).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        unknown = {k.arg for k in call.keywords if k.arg} - set(parameters)
        assert not unknown, f"{ast.unparse(call.func)} has no parameter {sorted(unknown)}"


def check_python(block: Block, known: dict[str, Any]) -> None:
    """It compiles, what it takes from tpo exists, and calls of tpo name real parameters."""
    tree = ast.parse(block.text)
    known |= imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            resolved(node, known)
        if isinstance(node, ast.Call):
            check_call(node, known)


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_code_blocks_of_a_page_are_real(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = path.read_text(encoding="utf-8")
    known: dict[str, Any] = {"registered": re.findall(r'register\(\s*"(\w+)"', text)}
    for block in blocks(text):
        if block.kind in ("python", "py"):
            check_python(block, known)
        elif block.kind == "toml":
            tomllib.loads(block.text)
        elif block.kind == "json":
            json.loads(block.text)
        elif block.kind in ("yaml", "yml"):
            pytest.importorskip("yaml").safe_load(block.text)
        for command in commands(block):
            check_command(command, capsys)


def check_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The real parser accepts it; one with a placeholder names a real command at least."""
    given = arguments(command)
    if PLACEHOLDER.search(command):
        assert given[0] in subcommands() or PLACEHOLDER.match(given[0]), command
        return
    problem = ""
    try:
        parser().parse_args(given)
    except SystemExit as stop:
        problem = capsys.readouterr().err if stop.code else ""
    except ValueError as error:
        problem = str(error)
    of_the_reader = "expected an existing" in problem  # a file or folder that the page assumes
    assert not problem or of_the_reader, f"{command}\n{problem}"


def test_commands_named_in_sentences_exist() -> None:
    """`tpo run vocab` in a sentence names a command of the parser."""
    unknown = [
        f"{path.relative_to(ROOT)}: {span}"
        for path in pages()
        for span in re.findall(r"(?<!`)`{1,2}(tpo [^`]+)`", path.read_text(encoding="utf-8"))
        if (word := span.split()[1]) not in subcommands() | {"COMMAND", "--version", "--help"}
        and re.match(r"[a-z-]+$", word)
    ]
    assert unknown == []


def test_the_blocks_are_found() -> None:
    """The pages have this many at least; a pattern that finds none would pass everything."""
    found = [block for path in pages() for block in blocks(path.read_text(encoding="utf-8"))]
    assert sum(block.kind == "python" for block in found) >= 10
    assert sum(len(commands(block)) for block in found) >= 20


def test_the_checks_can_fail(capsys: pytest.CaptureFixture[str]) -> None:
    """Each kind of mistake in a block is found."""
    with pytest.raises(AssertionError, match="vocabulary"):
        check_command("tpo run --vocabulary 3", capsys)
    for wrong in (
        "from tpo.llm import GroupTrainer",
        "import tpo\ntpo.targets(1)",
        "import tpo\ntpo.objective('tpo', et=1)",
        "import tpo\ntpo.standardize(x, masks=1)",
        "def f(:",
    ):
        with pytest.raises((AssertionError, AttributeError, ImportError, TypeError, SyntaxError)):
            check_python(Block("python", wrong), {})
    assert arguments("A=1 tpo run vocab --only 'H=5' | tee log # all") == [
        "run",
        "vocab",
        "--only",
        "H=5",
    ]


def test_the_paper_index_names_options_of_the_installed_trl() -> None:
    """`GRPOConfig(loss_type="dapo")` of the index is accepted by TRL."""
    trl = pytest.importorskip("trl")
    rows, others = (
        list(csv.DictReader((DOCS / name).read_text(encoding="utf-8").splitlines()))
        for name in ("_field.csv", "_elsewhere.csv")
    )
    assert [row["name"] for row in rows] == tpo.list_objectives()
    written = [row["trl"] for row in (*rows, *others) if "(" in row["trl"]]
    calls = [ast.parse(call, mode="eval").body for call in written]
    assert len(calls) >= 8
    for call in calls:
        assert isinstance(call, ast.Call)
        config = getattr(trl, ast.unparse(call.func))
        options = {field.name: field for field in config.__dataclass_fields__.values()}
        for keyword in call.keywords:
            help_text = options[keyword.arg or ""].metadata["help"]
            value = ast.literal_eval(keyword.value)
            assert not isinstance(value, str) or f"'{value}'" in help_text


@pytest.mark.parametrize("path", sorted(ROOT.glob("*.md")), ids=lambda path: path.name)
def test_the_links_of_the_pages_at_the_top_resolve(path: Path) -> None:
    """Those of the documentation are checked where it is built."""
    links = re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8"))
    files = [link.partition("#")[0] for link in links if not re.match(r"[a-z]+:", link)]
    assert [file for file in files if file and not (ROOT / file).exists()] == []
