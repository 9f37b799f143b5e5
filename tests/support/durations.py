"""How long tests take, in tests/durations.json: by file with real Spark, to start the longest first; and which tests may take
more than a minute, with the reason.

`python -m tests.support.durations FILE...` prints files, the longest first. A run with BRICKYARD_TEST_DURATIONS=1 writes those of
the files with real Spark that it has run.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from pathlib import Path

import msgspec
import pytest

from tests.support.depth import DEEP

FILE = Path(__file__).parents[1] / "durations.json"
LIMIT_S = 60.0  # in which something else than a processor was waited for: a busy machine fails no test


class Durations(msgspec.Struct, frozen=True):
    seconds: dict[str, int]
    """By file: of all its tests, with what they set up."""
    over_a_minute: dict[str, str]
    """Tests that may take longer than a minute, by the file in which they are written, without their parameters, and why."""


def read() -> Durations:
    return msgspec.json.decode(FILE.read_bytes(), type=Durations)


def check(test: str, took_s: float) -> None:
    """Raise AssertionError if a test took too long and is not listed."""
    if took_s > LIMIT_S and not DEEP:
        assert test in read().over_a_minute, f"{took_s:.0f} s: make it faster, or list it in {FILE}, and why"


_noted: dict[str, float] = defaultdict(float)


def note(report: pytest.TestReport) -> None:
    """Count a part of a test with real Spark."""
    if not {"spark", "fresh"}.isdisjoint(report.keywords):
        _noted[report.nodeid.partition("::")[0]] += report.duration


def keep() -> None:
    """Write what was counted, if it is asked for."""
    if os.environ.get("BRICKYARD_TEST_DURATIONS") == "1" and _noted:
        known = read()
        found = {file: round(seconds) for file, seconds in _noted.items()}
        seconds = {file: value for file, value in {**known.seconds, **found}.items() if (FILE.parents[1] / file).exists()}
        both = {"seconds": dict(sorted(seconds.items())), "over_a_minute": known.over_a_minute}
        FILE.write_text(json.dumps(both, indent=2) + "\n")


def longest_first(files: list[str]) -> list[str]:
    """Each of them once. One of which nothing is known counts as a minute."""
    seconds = read().seconds
    return sorted(set(files), key=lambda file: (-seconds.get(file, LIMIT_S), file))


if __name__ == "__main__":
    print(*longest_first(sys.argv[1:]), sep="\n")
