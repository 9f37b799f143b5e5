"""Which files with real Spark start first, and which tests may take long."""

from __future__ import annotations

import pytest

from tests.support import durations
from tests.support.snippets import ROOT


def test_the_longest_file_comes_first_and_each_once() -> None:
    known = durations.read().seconds
    given = [*sorted(known), "tests/new.py", *sorted(known)]
    ordered = durations.longest_first(given)
    assert ordered[0] == max(known, key=lambda file: known[file])
    assert sorted(ordered) == sorted({*known, "tests/new.py"})
    assert ordered.index("tests/new.py") == sum(seconds > durations.LIMIT_S for seconds in known.values())


def test_what_is_listed_is_there() -> None:
    kept = durations.read()
    for file in kept.seconds:
        assert (ROOT / file).is_file(), file
    for test in kept.over_a_minute:
        file, _, name = test.rpartition("::")
        assert f"def {name}(" in (ROOT / file).read_text(), test


def test_a_test_over_a_minute_fails_unless_it_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "DEEP", False)
    listed = next(iter(durations.read().over_a_minute))
    durations.check(listed, durations.LIMIT_S + 1)
    durations.check("tests/new.py::test_new", durations.LIMIT_S - 1)
    with pytest.raises(AssertionError):
        durations.check("tests/new.py::test_new", durations.LIMIT_S + 1)
