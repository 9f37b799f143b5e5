"""Calls that meet, in every state; clocks that are set; a flood of events: a documented error or a documented transition, and
nothing is stuck."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from brickyard.domain.clock import SystemClock
from brickyard.providers.simulated import Knobs
from tests.stateful.workspace import Workspace, now

HOUR = 3_600_000
SLOW = Knobs(register_s=0.3, start_s=0.3, stop_s=0.3)
SPEC: dict[str, Any] = {"spark_version": "17.3.x-scala2.13", "node_type_id": "small", "autotermination_minutes": 0}
Scenario = Callable[[Workspace], Coroutine[Any, Any, None]]


def play(place: Path, scenario: Scenario, *, database_url: str = "") -> None:
    async def life() -> None:
        workspace = Workspace(place, database_url=database_url)
        await workspace.boot()
        try:
            await scenario(workspace)
        finally:
            await workspace.crash()

    asyncio.run(life())


async def create(workspace: Workspace, num_workers: int = 2) -> str:
    status, answer = await workspace.post("create", **SPEC, num_workers=num_workers)
    assert status == 200, answer
    return str(answer["cluster_id"])


async def kinds(workspace: Workspace, name: str) -> list[str]:
    _, page = await workspace.post("events", cluster_id=name, order="ASC", limit=500)
    return [event["type"] for event in page["events"]]


ANY = {"num_workers": 1}
CALLS: dict[str, dict[str, Any]] = {
    "start": {},
    "restart": {},
    "resize": ANY,
    "edit": SPEC | ANY,
    "update": {"update_mask": "num_workers", "cluster": ANY},
    "delete": {},
    "pin": {},
    "unpin": {},
    "change-owner": {"owner_username": "admin@brickyard.local"},
}
# State -> the calls that it takes. Everything else is INVALID_STATE.
TAKES = {
    "PENDING": {"delete", "pin", "unpin"},
    "RUNNING": {"restart", "resize", "edit", "update", "delete", "pin", "unpin"},
    "RESIZING": {"delete", "pin", "unpin"},
    "RESTARTING": {"delete", "pin", "unpin"},
    "TERMINATING": {"delete", "pin", "unpin"},
    "TERMINATED": {"start", "edit", "update", "change-owner", "delete", "pin", "unpin"},
}


async def bring_to(workspace: Workspace, state: str) -> str:
    """A cluster in that state, which stays in it for a while."""
    workspace.machines.knobs = SLOW if state == "PENDING" else Knobs()
    name = await create(workspace)
    if state == "PENDING":
        return name
    await workspace.until(name, "RUNNING")
    workspace.machines.knobs = SLOW
    way: dict[str, tuple[str, dict[str, Any]]] = {
        "RESIZING": ("resize", {"num_workers": 4}),
        "RESTARTING": ("edit", SPEC | {"num_workers": 4}),
    }
    if state in way:
        verb, body = way[state]
        assert (await workspace.post(verb, cluster_id=name, **body))[0] == 200
    if state in ("TERMINATING", "TERMINATED"):
        assert (await workspace.post("delete", cluster_id=name))[0] == 200
    if state == "TERMINATED":
        await workspace.until(name, state)
    return name


@pytest.mark.parametrize("state", TAKES)
def test_every_call_in_every_state(tmp_path: Path, state: str) -> None:
    async def scenario(workspace: Workspace) -> None:
        for verb, body in CALLS.items():
            name = await bring_to(workspace, state)
            assert await workspace.state(name) == state
            status, answer = await workspace.post(verb, cluster_id=name, **body)
            if verb in TAKES[state]:
                assert status == 200, (verb, answer)
            else:
                assert (status, answer["error_code"]) == (400, "INVALID_STATE"), (verb, answer)
                assert name in answer["message"] and f"unexpected state {state.capitalize()}." in answer["message"]
            # Whatever was asked for comes to be.
            workspace.machines.knobs = Knobs()
            runs = verb == "start" if state == "TERMINATED" else state != "TERMINATING" and verb != "delete"
            await workspace.until(name, "RUNNING" if runs else "TERMINATED")
            assert (await workspace.post("unpin", cluster_id=name))[0] == 200
            assert (await workspace.post("permanent-delete", cluster_id=name))[0] == 200

    play(tmp_path, scenario)


def test_a_start_that_comes_too_early_works_a_moment_later(tmp_path: Path) -> None:
    async def scenario(workspace: Workspace) -> None:
        name = await bring_to(workspace, "TERMINATING")
        status, answer = await workspace.post("start", cluster_id=name)
        assert (status, answer["error_code"]) == (400, "INVALID_STATE")
        await workspace.until(name, "TERMINATED")
        assert (await workspace.post("start", cluster_id=name))[0] == 200
        assert await workspace.state(name) == "PENDING"
        await workspace.until(name, "RUNNING")

    play(tmp_path, scenario)


def test_a_hundred_edits_at_once_of_a_terminated_cluster(tmp_path: Path, store_url: str) -> None:
    """They take turns: every one is granted and recorded, and the last one holds, whole."""

    async def scenario(workspace: Workspace) -> None:
        name = await bring_to(workspace, "TERMINATED")

        async def edit(number: int) -> int:
            fields = {"num_workers": number, "cluster_name": f"n{number}", "custom_tags": {"n": str(number)}}
            return (await workspace.post("edit", cluster_id=name, **SPEC | fields))[0]

        assert set(await asyncio.gather(*(edit(number) for number in range(1, 101)))) == {200}
        _, found = await workspace.get("get", cluster_id=name)
        last = found["num_workers"]
        assert (found["cluster_name"], found["custom_tags"]) == (f"n{last}", {"n": str(last)})
        _, page = await workspace.post("events", cluster_id=name, limit=500, event_types=["EDITED"])
        sizes = [(event["details"]["previous_cluster_size"], event["details"]["cluster_size"]) for event in page["events"]][::-1]
        assert sorted(size["num_workers"] for _, size in sizes) == list(range(1, 101))
        assert [before for before, _ in sizes[1:]] == [after for _, after in sizes[:-1]]
        assert sizes[-1][1] == {"num_workers": last}
        assert found["state"] == "TERMINATED"

    play(tmp_path, scenario, database_url=store_url)


def test_a_hundred_edits_at_once_of_a_running_cluster(tmp_path: Path, store_url: str) -> None:
    """The first restarts it; the others find it restarting, are refused, and change nothing. On a busy machine the server may be
    too late to look at some of them, which change nothing either."""

    async def scenario(workspace: Workspace) -> None:
        name = await bring_to(workspace, "RUNNING")
        edits = (workspace.post_once("edit", cluster_id=name, **SPEC, num_workers=number) for number in range(11, 111))
        answers = await asyncio.gather(*edits)
        refused = [answer for status, answer in answers if status not in (200, 429)]
        late = [answer["error_code"] for status, answer in answers if status == 429]
        assert len(refused) + len(late) == 99
        assert set(late) <= {"REQUEST_LIMIT_EXCEEDED"}
        assert {answer["error_code"] for answer in refused} == {"INVALID_STATE"}
        assert all(re.search("unexpected state Restarting", answer["message"]) for answer in refused)
        assert (await kinds(workspace, name)).count("EDITED") == 1
        granted = 11 + [status for status, _ in answers].index(200)
        workspace.machines.knobs = Knobs()
        await workspace.until(name, "RUNNING")
        _, found = await workspace.get("get", cluster_id=name)
        assert found["num_workers"] == len(found["executors"]) == granted

    play(tmp_path, scenario, database_url=store_url)


def test_a_flood_of_events(tmp_path: Path) -> None:
    """What pins and unpins make in a moment is all there, in order, page by page, while more comes; other calls go on."""

    async def scenario(workspace: Workspace) -> None:
        name, other = await bring_to(workspace, "TERMINATED"), await create(workspace)
        before = len(await kinds(workspace, name))
        turns = [("pin", "unpin")[number % 2] for number in range(1_000)]
        for verb in turns:
            assert (await workspace.post(verb, cluster_id=name))[0] == 200
        asked: dict[str, Any] | None = {"cluster_id": name, "page_size": 300, "event_types": ["PINNED", "UNPINNED"]}
        shown: list[dict[str, Any]] = []
        while asked:
            (_, page), (status, _) = await asyncio.gather(
                workspace.post("events", **asked), workspace.post("pin", cluster_id=name)
            )
            assert status == 200
            shown += page["events"]
            asked = page.get("next_page")
        flood = [event["type"] for event in shown][::-1]
        assert [kind for kind in flood if kind in ("PINNED", "UNPINNED")][:1_000] == ["PINNED", "UNPINNED"] * 500
        assert len(flood) in (1_000, 1_001)  # the first of the new pins may have come before the first page
        _, page = await workspace.post("events", cluster_id=name)
        assert page["total_count"] == before + 1_001
        workspace.machines.knobs = Knobs()
        await workspace.until(other, "RUNNING")

    play(tmp_path, scenario)


class Wall:
    """A machine's clocks, which go as `passed` does; the one on the wall can be set."""

    def __init__(self, passed: Callable[[], int]) -> None:
        self._passed = passed
        self.set_by = 0
        self.clock = SystemClock(
            wall_ns=lambda: (self._passed() + self.set_by) * 1_000_000, monotonic_ns=lambda: self._passed() * 1_000_000
        )


@pytest.mark.parametrize("step", [-HOUR, HOUR // 4], ids=["back", "forward"])
@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "RESIZING", "RESTARTING", "TERMINATING"])
async def test_a_clock_that_is_set_stops_nothing(tmp_path: Path, state: str, step: int) -> None:
    passed = now()
    wall = Wall(passed.now_ms)
    workspace = Workspace(tmp_path, passed=passed, clock=wall.clock)
    await workspace.boot()
    try:
        workspace.machines.knobs = Knobs()
        name = await bring_to(workspace, state)
        wall.set_by += step
        workspace.machines.knobs = Knobs()
        await workspace.until(name, "TERMINATED" if state == "TERMINATING" else "RUNNING")
        if state == "TERMINATING":
            assert (await workspace.post("start", cluster_id=name))[0] == 200
            await workspace.until(name, "RUNNING")
        _, page = await workspace.post("events", cluster_id=name, order="ASC", limit=500)
        times = [event["timestamp"] for event in page["events"]]
        assert times == sorted(times)
        assert times[-1] - times[0] < 2 * HOUR
    finally:
        await workspace.crash()
