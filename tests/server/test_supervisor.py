"""A server's loops go on after any error, and readiness tells which do not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from brickyard.domain import periodic
from brickyard.domain.errors import DatabaseAway
from brickyard.domain.periodic import Loop, Periodic, Task
from brickyard.server import supervisor as module
from brickyard.server.supervisor import TOLERATED, Supervisor
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S


class Quick(Task):
    again_s = (0.001, 0.002)


async def begun(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


def supervised(run: Callable[[], Awaitable[None]], scenario: Callable[[Supervisor], Awaitable[None]]) -> None:
    async def main() -> None:
        supervisor = Supervisor()
        await supervisor.start({"instances": Quick(run)})
        try:
            await scenario(supervisor)
        finally:
            await supervisor.stop()

    asyncio.run(main())


def test_a_loop_that_fails_ends_or_is_cancelled_by_what_it_awaits_is_started_again() -> None:
    runs = 0

    async def run() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise ValueError("unforeseen")
        if runs == 2:
            return
        if runs == 3:  # a call that was under way when its threads were shut down
            cancelled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            cancelled.cancel()
            await cancelled
        await asyncio.Event().wait()

    async def scenario(_: Supervisor) -> None:
        await begun(lambda: runs == 4)

    supervised(run, scenario)


def test_a_loop_whose_group_of_tasks_fails_is_started_again_and_readiness_names_the_error_inside() -> None:
    runs = 0

    async def fail() -> None:
        raise ValueError("unforeseen")

    async def run() -> None:
        nonlocal runs
        runs += 1
        async with asyncio.TaskGroup() as outer, asyncio.TaskGroup() as inner:
            outer.create_task(asyncio.Event().wait())
            inner.create_task(fail())

    async def scenario(supervisor: Supervisor) -> None:
        await begun(lambda: supervisor.trouble(["instances"]) != "")
        assert runs > TOLERATED
        assert "ValueError: unforeseen" in supervisor.trouble(["instances"])

    supervised(run, scenario)


def test_readiness_hears_of_what_keeps_failing_until_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEADY_S", 0.02)
    runs, broken = 0, True

    async def run() -> None:
        nonlocal runs
        runs += 1
        if broken:
            raise ValueError("unforeseen")
        await asyncio.Event().wait()

    async def scenario(supervisor: Supervisor) -> None:
        nonlocal broken
        assert supervisor.trouble(["instances"]) == ""
        await begun(lambda: runs > TOLERATED + 1)
        assert "unforeseen" in supervisor.trouble(["instances"])
        assert supervisor.trouble(["another"]) == ""
        broken = False
        await begun(lambda: supervisor.trouble(["instances"]) == "")

    supervised(run, scenario)


def test_the_first_passes_are_over_before_any_loop_runs() -> None:
    steps: list[str] = []

    class Steps(Loop):
        def __init__(self, name: str) -> None:
            self._name = name

        async def first_pass(self) -> None:
            steps.append(f"first {self._name}")

        async def run(self) -> None:
            steps.append(self._name)
            await asyncio.Event().wait()

    async def main() -> None:
        supervisor = Supervisor()
        await supervisor.start({"a": Steps("a"), "b": Steps("b")})
        await begun(lambda: len(steps) == 4)
        await supervisor.stop()

    asyncio.run(main())
    assert steps == ["first a", "first b", "a", "b"]


def test_a_loop_that_does_not_end_holds_up_a_stop_only_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOP_S", 0.02)
    ended = asyncio.Event()

    async def stubborn() -> None:
        while not ended.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await ended.wait()

    async def main() -> None:
        supervisor = Supervisor()
        await supervisor.start({"stubborn": Task(stubborn)})
        await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE_S):
            await supervisor.stop()
        ended.set()

    asyncio.run(main())


def test_a_loop_that_fails_as_it_is_stopped_does_not_run_again() -> None:
    runs = 0

    async def run() -> None:
        nonlocal runs
        runs += 1
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("unforeseen")

    async def scenario(_: Supervisor) -> None:
        await begun(lambda: runs == 1)

    supervised(run, scenario)
    assert runs == 1


def test_a_pass_without_the_lease_is_repeated_like_any_other_when_the_database_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic, "AGAIN_S", 0.001)

    class Usable:
        async def usable(self) -> None:
            return

    class Skipping(Periodic):
        skips = ends = 0

        async def run_once(self) -> None:
            raise AssertionError("this server has no lease")

        async def skip(self) -> None:
            self.skips += 1
            raise DatabaseAway("the test says so")

        async def end(self) -> None:
            self.ends += 1

    async def main() -> None:
        loop = Skipping(every_s=60, database=Usable(), held=lambda: False)
        running = asyncio.create_task(loop.run())
        await begun(lambda: loop.skips > 2)
        assert loop.ends == 0
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        assert loop.ends == 1

    asyncio.run(main())


async def test_a_loop_that_goes_on_tells_itself_what_fails(golden: Golden) -> None:
    class Troubled(Loop):
        @property
        def trouble(self) -> str:
            return "its polls fail"

        async def run(self) -> None:
            await asyncio.Event().wait()

    supervisor = Supervisor()
    await supervisor.start({"runs": Troubled()})
    golden(supervisor.trouble(["runs"]), "runs", Troubled().trouble)
    await supervisor.stop()
