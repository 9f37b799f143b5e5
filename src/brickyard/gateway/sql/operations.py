"""Statements that run, and what of their results clients have not fetched yet.

A result is pulled from the driver as its client fetches it: at most two parts of it are here. An operation that nobody asks for
is ended after a while, with its Spark jobs.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from enum import Enum
from typing import NamedTuple

import structlog

from brickyard.domain.errors import ApiError
from brickyard.gateway.sql.columns import Column, columns_of
from brickyard.gateway.sql.driver import Chunk, Driver, SqlFailed, Target
from brickyard.gateway.sql.ipc import cut

IDLE_S = 900.0  # how long an operation waits for a call of its client
PEEK_S = 0.05  # how long a fetch waits to know whether more will come
MAX_OPERATIONS = 1_000
_END = Chunk(-1, b"")

log = structlog.get_logger(__name__)


class Phase(Enum):
    RUNNING = "running"
    READY = "ready"  # its result can be fetched
    FAILED = "failed"
    CANCELED = "canceled"


class Part(NamedTuple):
    """What a fetch returns: chunks, the number of the first row, and whether more follow."""

    chunks: list[Chunk]
    start: int
    more: bool


class Operation:
    """A statement of one session. Its results are read by one fetch at a time."""

    def __init__(self, operation_id: str, target: Target, driver: Driver, ended: Callable[[Operation], None]) -> None:
        self.id, self.target = operation_id, target
        self.phase = Phase.RUNNING
        self.error: SqlFailed | None = None
        self.schema = b""  # Arrow's message
        self.columns: list[Column] = []
        self.touched = time.monotonic()
        self._driver, self._ended = driver, ended
        self._chunks: asyncio.Queue[Chunk] = asyncio.Queue(1)
        self._ahead: asyncio.Task[Chunk] | None = None
        self._changed = asyncio.Event()
        self._rows = 0  # fetched
        self._left: Chunk | None = None
        self._fetching = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def begin(self, result: AsyncIterator[Chunk], *, timeout_s: float | None = None) -> None:
        """Run it: read its result as it comes."""
        self._task = asyncio.create_task(self._run(result, timeout_s))

    async def _run(self, result: AsyncIterator[Chunk], timeout_s: float | None) -> None:
        try:
            async with asyncio.timeout(timeout_s) as limit, contextlib.aclosing(result) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    if not self.schema:
                        limit.reschedule(None)  # the limit is for the statement, not for its client
                        self.schema, self.columns = cut(chunk.stream).schema, columns_of(chunk.stream)
                        self._become(Phase.READY)
                    await self._chunks.put(chunk)
        except TimeoutError:
            self._fail(
                SqlFailed(f"The statement was ended after {timeout_s:g} s, which its client asked for.", sql_state="57014")
            )
            await self._interrupt()
        except SqlFailed as error:
            self._fail(error)
        except ApiError as error:
            self._fail(SqlFailed(error.message))
        except Exception:
            log.exception("statement_failed", operation_id=self.id)
            self._fail(SqlFailed("The server failed to run this statement. Its log says why."))
        await self._chunks.put(_END)

    def _fail(self, error: SqlFailed) -> None:
        self.error = error
        self._become(Phase.FAILED)

    def _become(self, phase: Phase) -> None:
        self.phase = phase
        self._changed.set()

    async def wait(self, seconds: float) -> None:
        """Wait until it is no longer running, for so long at most."""
        self.touched = time.monotonic()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)
        self.touched = time.monotonic()

    async def fetch(self, max_rows: int) -> Part:
        """The next part of the result: one chunk of the driver's, whatever its size. Raises SqlFailed."""
        del max_rows  # a hint: parts are as Spark made them
        async with self._fetching:
            self.touched = time.monotonic()
            start = self._rows
            chunk = await self._next()
            if chunk is _END:
                if self.error is not None:
                    raise self.error
                return Part([], start, more=False)
            self._rows += chunk.rows
            self._ahead = asyncio.ensure_future(self._chunks.get())
            done, _ = await asyncio.wait({self._ahead}, timeout=PEEK_S)
            more = not (done and self._ahead.result() is _END and self.error is None)
            self.touched = time.monotonic()
            return Part([chunk], start, more=more)

    async def _next(self) -> Chunk:
        if self._ahead is None:
            chunk = await self._chunks.get()
        else:
            chunk = await asyncio.shield(self._ahead)
            self._ahead = None
        if chunk is _END:
            self._chunks.put_nowait(_END)
        return chunk

    async def cancel(self) -> None:
        """End it and its Spark jobs."""
        if self.phase is Phase.RUNNING:
            self._become(Phase.CANCELED)
        await self._interrupt()
        await self._stop()

    async def close(self) -> None:
        """Forget it. What still runs is ended."""
        self._ended(self)
        running = self._task is not None and not self._task.done()
        await self._stop()
        if running:
            await self._interrupt()
        await self._driver.release(self.target, self.id)

    async def _interrupt(self) -> None:
        try:
            await self._driver.interrupt(self.target, self.id)
        except (SqlFailed, ApiError) as error:
            log.info("statement_not_interrupted", operation_id=self.id, why=str(error))

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._ahead is not None:
            self._ahead.cancel()


class Operations:
    """Those of one server."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._known: dict[str, Operation] = {}

    def made(self, operation_id: str, target: Target) -> Operation:
        """A new operation. Raises SqlFailed if there are too many."""
        if len(self._known) >= MAX_OPERATIONS:
            raise SqlFailed(
                f"{MAX_OPERATIONS:,} statements are open on this server. Close some, and try again.", sql_state="53300"
            )
        operation = Operation(operation_id, target, self._driver, self._forget)
        self._known[operation_id] = operation
        return operation

    def find(self, operation_id: str, user: str, cluster_id: str) -> Operation | None:
        """The user's operation on that cluster."""
        operation = self._known.get(operation_id)
        if operation is None or (operation.target.user, operation.target.cluster_id) != (user, cluster_id):
            return None
        return operation

    async def close_session(self, target: Target) -> None:
        """Close what is open in a session."""
        mine = [each for each in self._known.values() if each.target[:3] == target[:3]]
        await asyncio.gather(*(each.close() for each in mine))

    async def close_idle(self) -> None:
        """Close what no client has asked for in IDLE_S."""
        limit = time.monotonic() - IDLE_S
        idle = [each for each in self._known.values() if each.touched < limit]
        await asyncio.gather(*(each.close() for each in idle))

    async def close(self) -> None:
        """Close all: the server stops. What runs is ended, since nobody could fetch its result."""
        await asyncio.gather(*(each.close() for each in list(self._known.values())))

    def _forget(self, operation: Operation) -> None:
        self._known.pop(operation.id, None)
