"""A row whose work fails keeps no other from its work."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import structlog.testing

from brickyard.domain.errors import DatabaseAway
from brickyard.reconcile import aside as module
from brickyard.reconcile.aside import Aside


async def test_rows_are_worked_on_together_and_a_bad_one_is_named_skipped_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PAUSE_S", (0.0, 0.0))
    aside, calls, bad = Aside[str]("check"), list[list[str]](), {"b"}

    async def work(keys: Sequence[str]) -> str:
        calls.append(list(keys))
        if bad & set(keys):
            raise ValueError("it cannot be read")
        return "".join(keys)

    with structlog.testing.capture_logs() as logs:
        assert await aside.together("abc", work) == ["a", "c"]
        assert await aside.together("abc", work) == ["a", "c"]
        bad.clear()
        assert await aside.together("abc", work) == ["abc"]
    assert calls == [["a", "b", "c"], ["a"], ["b"], ["c"]] * 2 + [["a", "b", "c"]]
    assert [(each["event"], each["key"]) for each in logs] == [("check_failed", "b"), ("check_recovered", "b")]


async def test_a_row_is_left_alone_for_longer_and_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("brickyard.reconcile.aside.time.monotonic", lambda: now)
    aside, pauses = Aside[int]("check"), list[float]()
    with structlog.testing.capture_logs():
        for _ in range(8):
            with aside.around(1):
                raise ValueError
            assert aside.ready([1, 2]) == [2]
            began = now
            while not aside.ready([1]):
                now += 0.5
            pauses.append(now - began)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]


async def test_trouble_with_the_database_is_nobodys_fault() -> None:
    aside = Aside[str]("check")

    async def away(keys: Sequence[str]) -> None:
        raise DatabaseAway("gone")

    with pytest.raises(DatabaseAway):
        await aside.together("ab", away)
    with pytest.raises(DatabaseAway), aside.around("a"):
        raise DatabaseAway("gone")
    assert aside.ready("ab") == ["a", "b"]
