"""What is over on a node does not begin again, however late a request arrives and however much has happened since."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.clock import Ids, timed_name
from brickyard.runtime.node.contexts import context, contexts
from brickyard.runtime.node.contexts.client import Event
from brickyard.runtime.node.contexts.contexterror import ContextError
from brickyard.runtime.node.contexts.fence import Fence
from tests.support.patience import until

LIMIT = 4
NOW = 1_790_000_000_000


class Kernel:
    """Ends every command at once, and counts them."""

    ran: Counter[str] = Counter()

    def __init__(self) -> None:
        self._events: deque[Event] = deque()

    def proceed(self) -> None:
        """It waits for nothing."""

    def connect(self, *, timeout_s: float, wanted: Callable[[], bool]) -> None:
        """It is there."""

    def poll(self) -> int | None:
        return None

    def interrupt(self) -> None:
        """It runs nothing."""

    def belong(self, context_id: str, user: str, ask: Any) -> None:
        """It asks nothing."""

    def execute(self, code: str, command_id: str, widgets: Mapping[str, str]) -> str:
        self.ran[command_id] += 1
        self._events.append(Event("shell", "execute_reply", command_id, {"status": "ok"}))
        self._events.append(Event("iopub", "status", command_id, {"execution_state": "idle"}))
        return command_id

    def receive(self, timeout_s: float) -> Event | None:
        return self._events.popleft() if self._events else None

    def end(self, *, keep: bool = False) -> None:
        """It has ended."""


class Factory:
    def __init__(self, **_: Any) -> None:
        """It needs nothing."""

    def start(self, *, hold: bool = False, after: object = None) -> Kernel:
        return Kernel()

    def close(self) -> None:
        """It has nothing."""


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[contexts.Contexts]:
    monkeypatch.setattr(contexts, "KernelFactory", Factory)
    monkeypatch.setattr(context, "KEEP_COMMANDS", 1)
    Kernel.ran.clear()
    access: Any = None  # nothing is opened
    made = contexts.Contexts(
        python="python", node_dir=str(tmp_path), access=access, env={}, node=MagicMock(), limit=LIMIT,
    )  # fmt: skip
    yield made
    made.close()


def begin(node: contexts.Contexts, name: str) -> None:
    """As a server begins an attempt of a run."""
    node.create(name, "python", "user")
    node.execute(name, name, "python", "1")


def ended(node: contexts.Contexts, context_id: str, command_id: str) -> Callable[[], bool]:
    def look() -> bool:
        status = node.command_status(context_id, command_id)
        assert status["status"] != "Error", status["results"]
        return bool(status["status"] == "Finished")

    return look


@pytest.mark.parametrize("others", [0, 3 * LIMIT], ids=["at once", "after many others"])
def test_an_attempt_that_is_over_does_not_begin_again(
    node: contexts.Contexts, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    monkeypatch.setattr(node, "_over", Fence(LIMIT))
    name = timed_name(NOW, 7)
    for _ in range(3):
        begin(node, name)
    until(ended(node, name, name))
    node.destroy(name)
    for number in range(others):
        begin(node, timed_name(NOW + 1, number))
        node.destroy(timed_name(NOW + 1, number))
    with pytest.raises(ContextError) as refusal:
        begin(node, name)
    assert refusal.value.code == "INVALID"
    with pytest.raises(ContextError, match="does not exist"):
        node.execute(name, name, "python", "1")
    assert Kernel.ran[name] == 1
    begin(node, timed_name(NOW + 2, 0))  # a later one is welcome


def test_an_attempt_that_is_ended_before_its_request_arrives_never_begins(node: contexts.Contexts) -> None:
    name = timed_name(NOW, 7)
    with pytest.raises(ContextError) as missing:
        node.destroy(name)
    assert missing.value.code == "NOT_FOUND"
    with pytest.raises(ContextError):
        begin(node, name)
    assert not node.overview()


def test_a_context_that_made_way_for_others_does_not_come_back(node: contexts.Contexts) -> None:
    names = [timed_name(NOW, number) for number in range(LIMIT + 1)]
    for name in names[:LIMIT]:
        node.create(name, "python", "user")
    node.withdraw("user", "no access")
    node.create(names[LIMIT], "python", "other")
    with pytest.raises(ContextError) as refusal:
        node.create(names[0], "python", "user")
    assert refusal.value.code == "INVALID"


def test_a_share_of_the_contexts_and_a_reserve(node: contexts.Contexts) -> None:
    names = iter([timed_name(NOW, number) for number in range(3 * LIMIT)])

    def create(user: str, *, share: int = 0, reserve: int = 0) -> str:
        try:
            node.create(next(names), "python", user, share=share, reserve=reserve)
        except ContextError as refusal:
            return refusal.code
        return ""

    assert [create("one", share=2, reserve=1) for _ in range(3)] == ["", "", "LIMIT"]
    others = [create(f"other {number}", share=2, reserve=1) for number in range(LIMIT - 2)]
    assert others == [""] * (LIMIT - 3) + ["LIMIT"]
    assert [create("manager"), create("manager")] == ["", "LIMIT"]


def test_a_command_whose_results_are_gone_does_not_run_again(node: contexts.Contexts) -> None:
    mine = timed_name(NOW, 0)
    node.create(mine, "python")
    commands = [timed_name(NOW, number) for number in range(1, 8)]
    for each in commands:
        node.execute(mine, each, "python", "1")
        until(ended(node, mine, each))
    for each in commands:
        node.execute(mine, each, "python", "1")  # repeating changes nothing
    node.execute(mine, timed_name(NOW, 9), "python", "1")
    until(ended(node, mine, timed_name(NOW, 9)))
    assert set(Kernel.ran.values()) == {1}


def test_the_code_that_waits_in_a_context_has_a_limit(node: contexts.Contexts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "MAX_QUEUED_CODE", 10_000)
    monkeypatch.setattr(node.node, "spark_open", time.sleep)  # never: its kernel does not start, so its commands wait
    mine, names = timed_name(NOW, 0), iter([timed_name(NOW, number) for number in range(1, 9)])
    node.create(mine, "python")

    def execute(size: int) -> str:
        try:
            node.execute(mine, next(names), "python", "#" * size)
        except ContextError as refusal:
            return refusal.code
        return ""

    assert [execute(20_000), execute(1)] == ["", "LIMIT"], "one command of any size"
    node.cancel(mine, timed_name(NOW, 1))
    assert [execute(9_000), execute(2_000), execute(1_000), execute(1)] == ["", "LIMIT", "", "LIMIT"]
    node.execute(mine, timed_name(NOW, 3), "python", "#" * 9_000)  # repeating changes nothing


@given(st.lists(st.integers(0, 60), max_size=80), st.integers(1, 10))
def test_a_fence_refuses_all_that_is_over_and_nothing_newer(closed: list[int], limit: int) -> None:
    fence, names = Fence(limit), [timed_name(NOW, each) for each in closed]
    for name in names:
        fence.close(name)
    assert all(fence.refuses(name) for name in names)
    newest = sorted(set(names))[-limit:]
    assert [name for name in sorted(set(names)) if fence.known(name)] == newest, "so memory is bounded"
    alive = {timed_name(NOW, each) for each in range(61)} - set(names)
    refused = {name for name in alive if fence.refuses(name)}
    assert not refused or (len(set(names)) > limit and max(refused) < newest[0])


def test_names_sort_by_their_time() -> None:
    ids = Ids()
    names = [ids.timed(NOW + ms) for ms in range(500)]
    assert names == sorted(names)
    assert {len(name) for name in names} == {32}
    assert timed_name(0, 255) == f"{255:032x}", "the name of an attempt that a server before this rule began"
