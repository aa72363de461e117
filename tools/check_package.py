"""The built wheel and sdist: what they hold, and the wheel in an empty environment.

python tools/check_package.py DIST                what both hold; the wheel with NumPy alone
python tools/check_package.py DIST --extra NAME   the wheel with one extra alone
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
REQUIRED = (
    "tpo/py.typed",
    "tpo/declarations/published.csv",
    "tpo/llm/verl/recipes/paper.yaml",
    "tpo/reports/html/assets/page.html",
    "tpo/reports/html/assets/style.css",
)
"""One file of each kind that is not Python; the others are compared with the sources."""

WITHOUT_LIBRARIES = {
    "demo": "lab",
    "studies": "lab",
    "run terminal": "lab",
    "run --methods tpo": "lab",
    "compare": "lab",
    "bench lab": "lab",
    "train --model any --task toy:sort": "llm",
    "bench llm": "llm",
    "verl gsm8k": "verl",
}
"""Commands that need more than NumPy, and the extra that each must name."""

SMOKE = {
    "lab": ("tpo.lab.tasks.images", "tpo.lab.execution.runner"),
    "llm": ("tpo.llm.runs.train", "tpo.llm.trl.trainer"),
    "verl": ("tpo.llm.verl.plugin",),
    "ray": ("ray", "tpo"),
}
"""Modules that an extra alone must be able to import."""

CONSTRAINTS = {"verl": "constraints-verl.txt"}


class BrokenError(Exception):
    """What is wrong with the package."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Check, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dist", type=Path, help="folder with one wheel and one sdist")
    parser.add_argument("--extra", choices=sorted(SMOKE), help="install this extra alone")
    given = parser.parse_args(arguments)
    try:
        wheel, sdist = one(given.dist, "*.whl"), one(given.dist, "*.tar.gz")
        if given.extra is None:
            check_contents(wheel_names(wheel), sdist_names(sdist))
            with tempfile.TemporaryDirectory() as folder:
                check_alone(Environment(Path(folder), wheel))
        else:
            with tempfile.TemporaryDirectory() as folder:
                check_extra(Environment(Path(folder), wheel, given.extra), given.extra)
    except BrokenError as error:
        print(f"check_package: {error}", file=sys.stderr)
        return 1
    return 0


def one(folder: Path, pattern: str) -> Path:
    """The only file of that pattern."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise BrokenError(f"{folder} has {len(found)} files {pattern}, expected one: make package")
    return found[0].absolute()


def wheel_names(wheel: Path) -> set[str]:
    """Every file of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def sdist_names(sdist: Path) -> set[str]:
    """Every file of the sdist, without its top folder."""
    with tarfile.open(sdist) as archive:
        return {file.name.partition("/")[2] for file in archive if file.isfile()}


def sources() -> set[str]:
    """Every file of the package, as the wheel names it."""
    files = (path for path in (ROOT / "src/tpo").rglob("*") if path.is_file())
    return {p.relative_to(ROOT / "src").as_posix() for p in files if p.suffix != ".pyc"}


def check_contents(wheel: set[str], sdist: set[str]) -> None:
    """The wheel holds the package and nothing else; the sdist what builds it. Neither holds tests."""
    wanted = sources() | set(REQUIRED)
    package = {name for name in wheel if ".dist-info/" not in name}
    _say_difference("the wheel", wanted, package)
    inside = {name.removeprefix("src/") for name in sdist if name.startswith("src/tpo/")}
    _say_difference("the sdist", wanted, inside)
    missing = {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO"} - sdist
    if missing:
        raise BrokenError(f"the sdist lacks {_listed(missing)}")
    tests = {name for name in sdist if name.startswith("tests/")}
    if tests:
        raise BrokenError(f"the sdist holds tests: {_listed(tests)}")
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel):
        raise BrokenError("the wheel lacks the license")
    print(f"wheel and sdist hold the {len(package)} files of the package, and no tests")


def _say_difference(what: str, wanted: set[str], found: set[str]) -> None:
    if wanted - found:
        raise BrokenError(
            f"{what} lacks {_listed(wanted - found)}: see [tool.setuptools.package-data]"
        )
    if found - wanted:
        raise BrokenError(f"{what} holds {_listed(found - wanted)}, which is not in src/tpo")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


class Environment:
    """A new environment with the wheel in it, and an empty working directory."""

    def __init__(self, folder: Path, wheel: Path, extra: str = "") -> None:
        """Create it and install; torch first, so that the constrained build of it stays."""
        self.bin = folder / "venv/bin"
        self.cwd = folder / "empty"
        self.cwd.mkdir()
        venv.create(folder / "venv", with_pip=True)
        what = f"{wheel.name}[{extra}]" if extra else wheel.name
        print(f"installing {what} in an empty environment", flush=True)
        if extra == "verl":
            self._install(extra, "torch")
        self._install(extra, f"tpo[{extra}] @ {wheel.as_uri()}" if extra else str(wheel))

    def _install(self, extra: str, what: str) -> None:
        constraints = ROOT / CONSTRAINTS.get(extra, "constraints.txt")
        options = ["--quiet", "--disable-pip-version-check", "--constraint", str(constraints)]
        done = self.run("python", "-m", "pip", "install", *options, what)
        if done.returncode:
            raise BrokenError(f"pip install {what} failed:\n{done.stdout}{done.stderr}")

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, which sees nothing of this checkout."""
        known = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
        command = [str(self.bin / program), *arguments]
        return subprocess.run(
            command, cwd=self.cwd, env=known, capture_output=True, text=True, check=False
        )

    def works(self, program: str, *arguments: str) -> str:
        """The output of a program that must end with status 0."""
        done = self.run(program, *arguments)
        words = " ".join([program, *arguments])
        if done.returncode:
            raise BrokenError(f"{words} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        print(f"  {words}: ok", flush=True)
        return done.stdout


def check_alone(environment: Environment) -> None:
    """With NumPy alone: version, doctor, the playground; each other command names the extra it needs."""
    print(f"  {environment.works('tpo', '--version').strip()}")
    environment.works("tpo", "doctor")
    environment.works("tpo", "report", "--playground", "--out", "playground.html")
    for words, extra in WITHOUT_LIBRARIES.items():
        done = environment.run("tpo", *words.split())
        told = done.stdout + done.stderr
        wanted = f"pip install 'tpo[{extra}]'"
        if done.returncode not in (1, 2) or wanted not in told or "Traceback" in told:
            raise BrokenError(
                f"tpo {words} ended with {done.returncode}, expected 1 or 2 and {wanted}:\n{told}"
            )
        print(f"  tpo {words}: {done.stderr.strip()}")


def check_extra(environment: Environment, extra: str) -> None:
    """With one extra alone: doctor misses nothing of it, and its modules can be imported."""
    told = environment.works("tpo", "doctor")
    print(told)
    if f"pip install 'tpo[{extra}]'" in told:
        raise BrokenError(f"tpo doctor misses something of {extra}")
    for module in SMOKE[extra]:
        environment.works("python", "-c", f"import {module}")


if __name__ == "__main__":
    sys.exit(main())
