"""Keeps a server's loops running: restarts one that has ended, and tells readiness if clusters would not be looked after."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

import structlog

log = structlog.get_logger(__name__)

PAUSE_S = (1.0, 5.0)  # shortest and longest pause before a restart
STEADY_S = 10.0  # a loop that has run for so long works
TOLERATED = 2  # failures in a row: a moment's trouble must not take the server out of a load balancer


class Supervisor:
    """For one event loop. Every loop runs until `stop`: its work must not end while the server serves."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic, pause_s: tuple[float, float] = PAUSE_S) -> None:
        self._monotonic = monotonic
        self._pause_s = pause_s
        self._tasks: list[asyncio.Task[None]] = []
        self._failures: dict[str, tuple[int, str]] = {}  # in a row, and the last one, of loops that do not run steadily

    def start(self, loops: Mapping[str, Callable[[], Awaitable[None]]]) -> None:
        """Starts loops, by their names for the log. Each must be able to run again after it has failed, as if it never had."""
        self._tasks += [asyncio.create_task(self._keep(name, run)) for name, run in loops.items()]

    async def stop(self) -> None:
        """Ends the loops."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def trouble(self, names: Iterable[str]) -> str:
        """Which of these loops keep failing, and why; "" if none does."""
        known = [(name, *self._failures.get(name, (0, ""))) for name in names]
        return "; ".join(f"the work on {name} keeps failing: {why}" for name, times, why in known if times > TOLERATED)

    async def _keep(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        shortest_s, pause_s = self._pause_s[0], self._pause_s[0]
        while True:
            steady = asyncio.get_running_loop().call_later(STEADY_S, self._works, name)
            try:
                await run()
                why = "it has ended"
                log.error("loop_failed", loop=name, why=why)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                why = "something that it waited for was cancelled"  # and not this task
                log.exception("loop_failed", loop=name)
            except Exception as error:
                why = f"{type(error).__name__}: {error}".partition("\n")[0]
                log.exception("loop_failed", loop=name)
            finally:
                steady.cancel()
            times = self._failures.get(name, (0, ""))[0] + 1
            self._failures[name] = (times, why)
            pause_s = shortest_s if times == 1 else min(2 * pause_s, self._pause_s[1])
            await asyncio.sleep(pause_s)

    def _works(self, name: str) -> None:
        """The loop has run for a while without an error."""
        if self._failures.pop(name, (0, ""))[0] > TOLERATED:
            log.info("loop_works", loop=name)
