"""Runs a server's loops: each again after an error, and tells readiness if clusters would not be looked after."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import structlog

from brickyard.domain.periodic import Loop

log = structlog.get_logger(__name__)

STEADY_S = 10.0  # a loop that has run for so long works
TOLERATED = 2  # failures in a row: a moment's trouble must not take the server out of a load balancer
STOP_S = 30.0  # for all loops to end


class Supervisor:
    """For one event loop. Every loop runs until `stop`: its work must not end while the server serves."""

    def __init__(self) -> None:
        self._loops: dict[str, Loop] = {}
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._failures: dict[str, tuple[int, str]] = {}  # in a row, and the last one, of loops that do not run steadily

    async def start(self, loops: Mapping[str, Loop]) -> None:
        """Do the first pass of each loop, in this order, and then run them all. Their names are for the log."""
        for loop in loops.values():
            await loop.first_pass()
        self._loops |= loops
        self._tasks |= {asyncio.create_task(self._keep(name, loop)): name for name, loop in loops.items()}

    async def stop(self) -> None:
        """End the loops."""
        tasks, self._tasks = self._tasks, {}
        for task in tasks:
            task.cancel()
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=STOP_S)
            for task in left:
                log.error("loop_does_not_end", loop=tasks[task])

    def trouble(self, names: Iterable[str]) -> str:
        """Which of these loops keep failing, and why; "" if none does."""
        known = [(name, self._why_not(name)) for name in names]
        return "; ".join(f"the work on {name} keeps failing: {why}" for name, why in known if why)

    def _why_not(self, name: str) -> str:
        times, why = self._failures.get(name, (0, ""))
        if times > TOLERATED:
            return why
        return self._loops[name].trouble if name in self._loops else ""

    async def _keep(self, name: str, loop: Loop) -> None:
        first_s, longest_s = loop.again_s
        while True:
            steady = asyncio.get_running_loop().call_later(STEADY_S, self._works, name)
            try:
                # In its own task: on Python 3.11, a failed TaskGroup leaves `cancelling` above 0, as if its task were to end.
                await asyncio.create_task(loop.run())
                error: BaseException = RuntimeError("it has ended")
            except asyncio.CancelledError as cancelled:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                error = cancelled  # something that it waited for was cancelled, and not this task
            except Exception as failure:
                error = failure
                if (task := asyncio.current_task()) is not None and task.cancelling():  # it failed to end in order
                    log.exception("loop_failed", loop=name)
                    return
            finally:
                steady.cancel()
            times, before = self._failures.get(name, (0, ""))
            why = _why(error)
            self._failures[name] = (times + 1, why)
            if why != before:
                log.error("loop_failed", loop=name, exc_info=error)
            await asyncio.sleep(min(first_s * 2 ** min(times, 10), longest_s))

    def _works(self, name: str) -> None:
        """The loop has run for a while without an error."""
        if self._failures.pop(name, (0, ""))[0] > TOLERATED:
            log.info("loop_works", loop=name)


def _why(error: BaseException) -> str:
    """The first error of those that a group of tasks has raised, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}".partition("\n")[0]
