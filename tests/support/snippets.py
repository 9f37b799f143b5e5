"""The code blocks of a page, and a reader that runs them in order, in one shell and one Python session."""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import IO, Any, NamedTuple

from tests.support import forks
from tests.support.forks import Forked
from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PICTURES = ("text", "mermaid", "promql", "sql", "yaml")  # not run: pictures, and blocks for other programs
READ = ("toml", "json", "ini", "hcl")  # files: parsed with the parser of their format
SESSION = Path(__file__).with_name("session.py")


class Block(NamedTuple):
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str

    @property
    def key(self) -> tuple[str, str]:
        """Identifies the block even when lines are added before it: the page and the first line."""
        return self.page, self.text.splitlines()[0].partition("#")[0].strip()

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The page's blocks, in order."""
    found, lines = [], page.read_text().splitlines()
    fences = [number for number, line in enumerate(lines) if line.lstrip().startswith("```")]
    for first, last in zip(fences[::2], fences[1::2], strict=True):
        language = lines[first].strip().removeprefix("```")
        found.append(Block(page.name, first + 1, language, "\n".join(lines[first + 1 : last]) + "\n"))
    return found


class Reader:
    """Follows a page. `instead` maps text of the page to its value here (ports, ids), and may change between blocks.
    `python` runs Python's blocks; without one they run in a process that has the official SDK already."""

    def __init__(self, *, environment: dict[str, str], python: str = "", python_path: str = "") -> None:
        self.environment = environment
        self.instead: dict[str, str] = {}
        self._python = python
        self._python_path = python_path
        self._session: tuple[IO[str], IO[str], subprocess.Popen[str] | Forked] | None = None

    def follow(self, block: Block) -> str:
        """Runs the block and returns its output. Fails if the block fails."""
        text = block.text
        for words, here in self.instead.items():
            text = text.replace(words, here)
        if block.language == "bash":
            return self._type(block, text)
        if block.language == "python":
            return self._run(block, text)
        assert block.language in READ, f"{block}: nobody knows what to do with {block.language or 'a block without a language'!r}"
        parse(block.language, text)
        return ""

    def type_in(self, text: str) -> str:
        """Runs code that a test needs besides the page's."""
        return self.follow(Block("a test", 1, "bash", f"{text}\n"))

    def close(self) -> None:
        if self._session is not None:
            questions, answers, process = self._session
            questions.close()
            process.wait(PATIENCE_S)
            answers.close()

    def _type(self, block: Block, text: str) -> str:
        """Runs it in a shell and keeps its variables for the following blocks."""
        with tempfile.NamedTemporaryFile() as left:
            script = f"set -euo pipefail\n{text}\nenv -0 >{left.name}\n"
            done = subprocess.run(
                ["bash", "-c", script], cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False,
                timeout=PATIENCE_S, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            assert done.returncode == 0, f"{block}: {done.stdout}{done.stderr}"
            self.environment = dict(line.split("=", 1) for line in Path(left.name).read_text().split("\0") if line)
        return done.stdout

    def _run(self, block: Block, text: str) -> str:
        if self._session is None:
            self._session = self._begin()
        questions, answers, _ = self._session
        print(json.dumps(text), file=questions, flush=True)
        answer = json.loads(answers.readline())
        assert not answer["error"], f"{block}: {answer['error']}"
        return str(answer["shown"])

    def _begin(self) -> tuple[IO[str], IO[str], subprocess.Popen[str] | Forked]:
        if self._python:
            process = subprocess.Popen(
                [self._python, "-c", SESSION.read_text()], env={**self.environment, "PYTHONPATH": self._python_path},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            assert process.stdin is not None and process.stdout is not None
            return process.stdin, process.stdout, process
        (reads, asks), (hears, writes) = os.pipe(), os.pipe()
        forked = forks.commands().start(
            "tests.support.session:main", argv=["-c"], environment=self.environment, descriptors={0: reads, 1: writes, 2: 2}
        )
        os.close(reads)
        os.close(writes)
        return os.fdopen(asks, "w"), os.fdopen(hears), forked


def parse(language: str, text: str) -> Any:
    """A file's content. Raises if the format's parser does."""
    if language == "toml":
        return tomllib.loads(text)
    if language == "json":
        return json.loads(text)
    if language == "ini":
        file = configparser.ConfigParser(strict=False, interpolation=None)
        file.optionxform = str  # type: ignore[assignment,method-assign] # systemd's keys have capitals
        file.read_string(text)
        return {name: dict(section) for name, section in file.items()}
    return _hcl(text)


def _hcl(text: str) -> dict[str, dict[str, Any]]:
    """Parses blocks of assignments, which is enough for a Terraform resource without nested blocks."""
    found: dict[str, dict[str, Any]] = {}
    inside: dict[str, Any] | None = None
    for line in filter(None, map(str.strip, text.splitlines())):
        if head := re.fullmatch(r'(\w+(?: "[^"]+")*) \{', line):
            assert inside is None, f"a nested block: {line}"
            inside = found.setdefault(head[1], {})
        elif line == "}":
            assert inside is not None, "a brace too many"
            inside = None
        else:
            assignment = re.fullmatch(r"(\w+)\s*=\s*(.+)", line)
            assert assignment is not None and inside is not None, line
            inside[assignment[1]] = assignment[2] if assignment[2].startswith("var.") else json.loads(assignment[2])
    assert inside is None, "a brace is missing"
    return found


def home_environment(home: Path, **more: str) -> dict[str, str]:
    """The environment of a user who has just installed Brickyard: an empty home, the command on the path."""
    dropped = ("BRICKYARD_", "DATABRICKS_", "XDG_", "VIRTUAL_ENV", "PYTHONPATH")
    keep = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{keep['PATH']}"
    return {**keep, "HOME": str(home), "PATH": path, "BRICKYARD_ENDS_WITH": str(os.getpid()), **more}


def quick(environment: dict[str, str]) -> dict[str, str]:
    """The same with a command that need not be imported, before the one on the path."""
    place = Path(environment["HOME"]) / "quick"
    place.mkdir()
    forks.commands().script(place / "brickyard", "brickyard.cli:main")
    return {**environment, "PATH": f"{place}{os.pathsep}{environment['PATH']}"}
