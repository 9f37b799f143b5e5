"""What the product says, in one file: tests/golden/messages.json.

A test asserts by classes, codes, fields and ids what happens. How it is worded stands in that file alone, by the test that brings
it about; so a wording is changed in src, and the file is written anew with `./dev python -m tests.golden`.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

FILE = Path(__file__).parent.parent / "golden" / "messages.json"
REWRITE = "BRICKYARD_TEST_MESSAGES"  # set: the file is written
VARYING = {  # from run to run, from machine to machine, or with each runtime and setting that is new
    re.compile(r"/\S*/pytest-of-[^/\s]+/pytest-\d+/(popen-gw\d+/)?[^/\s:;,'\"]+"): "{tmp_path}",
    re.compile(r"\b\d{4}-\d{6}-[a-z0-9]{4,6}-pool-[A-Za-z0-9]{8}\b"): "{pool_id}",
    re.compile(r"\b\d{4}-\d{6}-[a-z0-9]{8}\b"): "{cluster_id}",
    re.compile(r"(127\.0\.0\.1(?::|', ))\d+"): r"\1{port}",
    re.compile(r"\(process \d{2,} on [^)]+\)"): "(process {pid} on {host})",
    re.compile(r"\(process \d{2,} at"): "(process {pid} at",
    re.compile(r"/test_\d+_\d+\b"): "/{database}",
    re.compile(r"\bafter \d+\.\d s\b"): "after {seconds} s",
    re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z "): "",  # of a log's line
    re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"): "{uuid}",
    re.compile(r"\b[0-9a-f]{8}@"): "{user}@",
    re.compile(r" Config: host=.*", re.DOTALL): "",  # the SDK's own words after ours
    re.compile(r"[\d.]+ GiB of [\d.]+ GiB are free"): "{free} are free",
    re.compile(r"(Use one of: )\d+\.\d\.x-[\w.-]+\d(, \d+\.\d\.x-[\w.-]+\d)*"): r"\1{runtimes}",
    re.compile(r"(Settings: )\w+(, \w+)*"): r"\1{settings}",
    re.compile(r"(?<![0-9a-z])(?:\d{11,}|[0-9a-f]{16,}|[0-9A-F]{16,})\b"): "{id}",
}

E = TypeVar("E", bound=BaseException)
Messages = dict[str, dict[str, list[str]]]


@functools.cache
def messages() -> Messages:
    """Test file -> test -> what it brings about, in order."""
    found: Messages = json.loads(FILE.read_text())
    return found


class Golden:
    """The sentences of one test. Each call holds the next one against the file."""

    def __init__(self, file: str, test: str) -> None:
        self._file, self._test = file, test
        self._said: list[str] = []

    def __call__(self, sentence: str | None, *fields: str, **names: str) -> None:
        """`fields`: what it must name, however it is worded. `names`: what differs from run to run, by what stands for it."""
        assert sentence is not None
        assert [each for each in fields if each not in sentence] == [], sentence
        for name, value in {"python": sys.executable, **names}.items():
            sentence = sentence.replace(value, f"{{{name}}}")
        for pattern, name in VARYING.items():
            sentence = pattern.sub(name, sentence)
        self._said.append(sentence)
        if REWRITE not in os.environ:
            kept = messages().get(self._file, {}).get(self._test, [])
            assert sentence == "".join(kept[len(self._said) - 1 : len(self._said)]), f"not as in {FILE}; see {__name__}"

    def line(self, text: str, *fields: str, **names: str) -> None:
        """The one line of `text` that names all the fields."""
        found = [each.strip() for each in text.splitlines() if all(field in each for field in fields)]
        assert len(found) == 1, text
        self(found[0], *fields, **names)

    @contextlib.contextmanager
    def refused(self, kind: type[E], *fields: str, **names: str) -> Iterator[pytest.ExceptionInfo[E]]:
        """The block raises an error of this class with the words of the file."""
        with pytest.raises(kind) as caught:
            yield caught
        self(str(caught.value), *fields, **names)

    def end(self) -> None:
        """The test is over: what the file has beyond it is said no more."""
        if REWRITE not in os.environ:
            kept = messages().get(self._file, {}).get(self._test, [])
            assert len(self._said) == len(kept), f"not all of {FILE} is said; see {__name__}"
            return
        with FILE.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found: Messages = json.loads(FILE.read_text())
            tests = found.setdefault(self._file, {})
            if self._said:
                tests[self._test] = self._said
            else:
                tests.pop(self._test, None)
            write(found)


def write(found: Messages) -> None:
    FILE.write_text(json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def known(file: str, tests: dict[str, list[str]]) -> dict[str, list[str]]:
    """Those of the file's tests that are there."""
    path = FILE.parents[2] / file
    text = path.read_text() if path.exists() else ""
    return {test: said for test, said in tests.items() if f"def {test.partition('[')[0]}(" in text}
