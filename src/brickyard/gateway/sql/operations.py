"""Statements that run, and what of their results clients have not fetched yet.

`Operations.begin` runs a statement in a session and returns its `Operation`: wait for it, fetch its result as Arrow streams,
cancel it, close it. It serves every way in; `SqlEntrance.door()` gives it to those outside of this package.

A result is pulled from the driver as its client fetches it: AHEAD parts of it are here, of about 4 MiB each, or more if they are
small. An operation that
nobody asks for is ended after a while, with its Spark jobs.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from enum import Enum

import structlog

from brickyard.domain.access import Principal
from brickyard.domain.errors import ApiError
from brickyard.domain.quotas import Occupancy, Quota, Slot
from brickyard.domain.statements import Statement, StatementOutcome, StatementState
from brickyard.gateway.sql.columns import Column, columns_of
from brickyard.gateway.sql.driver import Chunk, Driver, Part, Query, Target
from brickyard.gateway.sql.failures import CANCELED, TIMED_OUT, SqlFailed
from brickyard.gateway.sql.ipc import cut
from brickyard.gateway.sql.linked import LinkedResult
from brickyard.gateway.sql.observing import StatementObserver, Unobserved

IDLE_S = 900.0  # how long an operation waits for a call of its client
GONE_S = 60.0  # and if the client's connection broke off while it waited for an answer
LOOK_S = 5.0  # between two looks for idle ones
PEEK_S = 0.02  # how long a fetch waits to know whether more will come
AHEAD = 2  # parts of a result that wait here
HELD_BYTES = 4 << 20  # and more of them, as long as they are no larger
INTERRUPTS = 3  # how often a statement is interrupted that does not run yet
OPEN = Quota("open SQL statements", total=1_000, share=250, reserve=100, advice="Close some, and try again.", admin_share=250)

log = structlog.get_logger(__name__)


class Phase(Enum):
    """What a client may do with an operation."""

    RUNNING = "running"
    READY = "ready"  # its result can be fetched
    FAILED = "failed"
    CANCELED = "canceled"


class Operation:
    """A statement of one session. Its results are read by one fetch at a time."""

    def __init__(self, statement: Statement, target: Target, driver: Driver, observer: StatementObserver, slot: Slot) -> None:
        self.id, self.statement, self.target = statement.statement_id, statement, target
        self.phase = Phase.RUNNING
        self.error: SqlFailed | None = None
        self.schema = b""  # Arrow's message
        self.columns: list[Column] = []
        self.slot = slot
        self.on_end: Callable[[], None] = lambda: None  # called once, when it is closed
        self._driver, self._observer = driver, observer
        self._idle_at = time.monotonic() + IDLE_S
        self._buffer: deque[Chunk] = deque()
        self._held = 0  # bytes in it
        self.adopted = False  # another server has begun it
        self.linked: LinkedResult | None = None  # its client gets links
        self.settling, self.settled = asyncio.Lock(), False  # whether it does
        self._moved = asyncio.Condition()
        self._complete = False
        self._changed = asyncio.Event()
        self._read = 0  # rows
        self._fetched = 0  # rows
        self._fetching = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._ended = self._closed = False

    def begin(self, result: AsyncIterator[Chunk], *, timeout_s: float | None = None) -> None:
        """Run it: read its result as it comes."""
        if self.adopted:
            self._observer.went_on(self.statement)
        else:
            self._observer.began(self.statement)
        self._task = asyncio.create_task(self._run(result, timeout_s))

    async def _run(self, result: AsyncIterator[Chunk], timeout_s: float | None) -> None:
        try:
            async with asyncio.timeout(timeout_s) as limit, contextlib.aclosing(result) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    if not self.schema:
                        limit.reschedule(None)  # the limit is for the statement, not for its client
                        self.schema, self.columns = cut(chunk.stream).schema, columns_of(chunk.stream)
                        self._become(Phase.READY)
                    if chunk.rows:
                        self._read += chunk.rows
                        await self._put(chunk)
            self._end(StatementState.FINISHED)
        except TimeoutError:
            self._fail(SqlFailed(f"The statement was stopped after its limit of {timeout_s:g} s.", sql_state=TIMED_OUT))
            await self._interrupt()
        except SqlFailed as error:
            if not self._fetched and (error.taken_over or (self.adopted and (error.operation_gone or error.of_the_call))):
                self._leave_to_another(error)
            else:
                self._fail(error)
        except ApiError as error:
            self._fail(SqlFailed(error.message))
        except Exception:
            log.exception("statement_failed", operation_id=self.id)
            self._fail(SqlFailed("The server failed to run this statement. Its log says why."))
        async with self._moved:
            self._complete = True
            self._moved.notify_all()

    async def _put(self, chunk: Chunk) -> None:
        async with self._moved:
            await self._moved.wait_for(lambda: not self._full)
            self._buffer.append(chunk)
            self._held += len(chunk.stream)
            self._moved.notify_all()

    @property
    def _full(self) -> bool:
        return len(self._buffer) >= AHEAD and self._held >= HELD_BYTES

    async def fits(self, seconds: float) -> bool:
        """Whether all of its result is here, at the latest after that time."""
        async with self._moved:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._moved.wait_for(lambda: self._complete or self._full)
            return self._complete

    def _fail(self, error: SqlFailed) -> None:
        self.error = error
        self._become(Phase.FAILED)
        self._end(StatementState.CANCELED if error.sql_state == TIMED_OUT else StatementState.FAILED)

    def _leave_to_another(self, error: SqlFailed) -> None:
        """Forget it: another server has taken it up, as nobody has fetched from here, or has never let it go. This one may take
        it up again."""
        self.error = error
        self._become(Phase.FAILED)
        self._ended = self._closed = True
        self._observer.left(self.statement)
        self.slot.release()
        self.on_end()

    def _become(self, phase: Phase) -> None:
        self.phase = phase
        self._changed.set()

    def _end(self, state: StatementState) -> None:
        if not self._ended:
            self._ended = True
            error = self.error or SqlFailed("", sql_state=" ")
            outcome = StatementOutcome(
                state=state,
                ended_ms=int(time.time() * 1000),
                rows_produced=self._read,
                error=error.text,
                sql_state=error.sql_state.strip(),
                error_class=error.error_class,
            )
            self._observer.ended(self.statement, outcome)

    def touch(self, seconds: float | None = None) -> None:
        """Its client has asked for it, and may stay away for so long; None: IDLE_S."""
        self._idle_at = time.monotonic() + (IDLE_S if seconds is None else seconds)

    def idle(self, now: float) -> bool:
        """Whether its client has stayed away for too long."""
        return now > self._idle_at

    async def wait(self, seconds: float) -> None:
        """Wait until it is no longer running, for so long at most."""
        self.touch(seconds + IDLE_S)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)
        self.touch()

    async def fetch(self, max_bytes: int, *, for_client: bool = True) -> Part:
        """The next part of the result: what is here, of about that size, and at least one chunk of the driver's unless this is
        the end. Its client is there meanwhile, if it is the one who waits. Raises SqlFailed."""
        async with self._fetching:
            if for_client:
                self.touch(IDLE_S * 10)
            async with self._moved:
                await self._moved.wait_for(lambda: bool(self._buffer) or self._complete)
                part = self._take(max_bytes)
                self._moved.notify_all()
            if for_client:
                self.touch()
            if not part.chunks and self.error is not None:
                raise self.error
            try:
                more = await self._more(part)
                if part.chunks and more:  # from here on, Spark does not give the result from its beginning to another server
                    await self._driver.release(self.target, self.id, until=part.chunks[-1].response_id)
            except BaseException:  # its client may go meanwhile, and fetch these rows again
                self.give_back(part)
                raise
            return part._replace(more=more)

    def _take(self, max_bytes: int) -> Part:
        """The first chunks that are here."""
        chunks, size = list[Chunk](), 0
        while self._buffer and (not chunks or size + len(self._buffer[0].stream) <= max_bytes):
            chunks.append(self._buffer.popleft())
            size += len(chunks[-1].stream)
        self._held -= size
        part = Part(chunks, self._fetched, more=True)
        self._fetched += sum(chunk.rows for chunk in chunks)
        return part

    async def _more(self, part: Part) -> bool:
        """Whether anything follows that part."""
        async with self._moved:
            if not self._buffer and not self._complete:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PEEK_S):
                        await self._moved.wait_for(lambda: bool(self._buffer) or self._complete)
            return bool(self._buffer) or not self._complete or (bool(part.chunks) and self.error is not None)

    def give_back(self, part: Part) -> None:
        """Undo the last fetch, whose client has not got it."""
        self._buffer.extendleft(reversed(part.chunks))
        self._held += sum(len(each.stream) for each in part.chunks)
        self._fetched = part.start

    async def cancel(self) -> None:
        """End it and its Spark jobs."""
        if self.phase is Phase.RUNNING:
            self.error = SqlFailed("The statement was canceled.", sql_state=CANCELED)
            self._become(Phase.CANCELED)
        self._end(StatementState.CANCELED)
        await self._stop()

    async def close(self, *, release: bool = True, remove: bool = False) -> None:
        """Forget it. What still runs is ended. `release`: Spark forgets it too, and would run its id again. `remove`:
        its client reads nothing any more of what it has links to."""
        if self._closed:
            return
        self._closed = True
        self.slot.release()
        self.on_end()
        self._end(StatementState.CANCELED if self.phase is Phase.RUNNING else StatementState.FINISHED)
        await self._stop()
        if self.linked is not None:
            await self.linked.close(remove=remove)
        if release:
            await self._driver.release(self.target, self.id)

    async def _stop(self) -> None:
        if await self.leave():
            self.error = self.error or SqlFailed("The statement was canceled.", sql_state=CANCELED)
            async with self._moved:  # its result is not whole: a fetch that waits must not take it for that
                self._complete = True
                self._moved.notify_all()
            await self._interrupt()

    async def leave(self) -> bool:
        """Stop reading from the driver, where it goes on for some minutes. Returns whether there was anything to read."""
        if self._task is None or self._task.done():
            return False
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        return True

    async def suspend(self) -> None:
        """The server stops: leave it to Spark, and its files to other servers."""
        if self.linked is not None:
            await self.linked.leave()
        await self.leave()

    async def _interrupt(self) -> None:
        try:
            for again in range(INTERRUPTS):  # Spark may not have begun what it was sent a moment ago
                if await self._driver.interrupt(self.target, self.id):
                    return
                await asyncio.sleep(0.1 * (again + 1))
        except (SqlFailed, ApiError) as error:
            log.info("statement_not_interrupted", operation_id=self.id, why=str(error))


class Operations:
    """Those of one server."""

    def __init__(self, driver: Driver, observer: StatementObserver | None = None) -> None:
        self._driver = driver
        self._observer = observer or Unobserved()
        self._known: dict[str, Operation] = {}
        self._occupancy = Occupancy()
        self._sweep: asyncio.Task[None] | None = None

    def begin(
        self, statement: Statement, query: Query, target: Target, principal: Principal, *, timeout_s: float | None = None
    ) -> Operation:
        """Run a statement. Raises SqlFailed if too many are open."""
        result = self._driver.execute(target, statement.statement_id, query)
        return self._begin(statement, target, principal, result, timeout_s=timeout_s)

    def adopt(self, statement: Statement, target: Target, principal: Principal, *, again: Query | None = None) -> Operation:
        """Go on with a statement that another server has begun and nobody has fetched from. `again`: the statement, which runs if
        Spark has never heard of it."""
        result = self._driver.reattach(target, statement.statement_id, again=again)
        return self._begin(statement, target, principal, result, adopted=again is None)

    def _begin(
        self,
        statement: Statement,
        target: Target,
        principal: Principal,
        result: AsyncIterator[Chunk],
        *,
        timeout_s: float | None = None,
        adopted: bool = False,
    ) -> Operation:
        slot = self._occupancy.enter(OPEN, principal, error=lambda why: SqlFailed(why, sql_state="53300"))
        operation = Operation(statement, target, self._driver, self._observer, slot)
        operation.adopted = adopted
        operation.on_end = lambda: self._forget(operation)
        self._known[operation.id] = operation
        if self._sweep is None or self._sweep.done():
            self._sweep = asyncio.create_task(self._close_idle())
        operation.begin(result, timeout_s=timeout_s)
        return operation

    def find(self, operation_id: str, user: str, cluster_id: str) -> Operation | None:
        """The user's operation on that cluster."""
        operation = self._known.get(operation_id)
        if operation is None or (operation.target.user, operation.target.cluster_id) != (user, cluster_id):
            return None
        operation.touch()
        return operation

    async def close_session(self, target: Target) -> None:
        """Close what is open in a session."""
        mine = [each for each in self._known.values() if each.target[:3] == target[:3]]
        await asyncio.gather(*(each.close(remove=True) for each in mine))

    async def close(self) -> None:
        """The server stops. What runs goes on in Spark for some minutes, for its client to ask another server for it."""
        if self._sweep is not None:
            self._sweep.cancel()
        await asyncio.gather(*(each.suspend() for each in self._known.values()))
        self._known.clear()

    async def _close_idle(self) -> None:
        """Close what no client has asked for in a while, as long as anything is open."""
        while self._known:
            await asyncio.sleep(LOOK_S)
            now = time.monotonic()
            idle = [each for each in self._known.values() if each.idle(now)]
            await asyncio.gather(*(each.close() for each in idle), return_exceptions=True)

    def _forget(self, operation: Operation) -> None:
        self._known.pop(operation.id, None)
