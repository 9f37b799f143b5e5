"""Runs statements, each in a task, and records what becomes of them.

A statement runs at most once: who starts it has inserted its row, and nobody starts it again. A server that is killed leaves a
row that is no longer heard from, which is FAILED then.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable

import msgspec
import structlog

from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.errors import ApiError, DatabaseTrouble
from brickyard.features.statements.model import (
    ChunkInfo,
    ColumnInfo,
    Disposition,
    ExecutionState,
    Manifest,
    Query,
    ResultSchema,
    ServiceError,
    SqlRunner,
    StatementFailed,
    StatementRow,
)
from brickyard.features.statements.results import ResultFiles
from brickyard.features.statements.rows import StatementRows
from brickyard.features.statements.rules import BEAT_MS, KEPT_MS, MAX_INLINE
from brickyard.store.store import Store
from brickyard.store.tx import Tx

log = structlog.get_logger(__name__)
STOP_S = 10.0  # how long drivers may take to end what runs, when the server stops
Change = Callable[[StatementRow], StatementRow]


def _heard(row: StatementRow, *, now_ms: int) -> StatementRow:
    return msgspec.structs.replace(row, beat_ms=now_ms, expires_ms=now_ms + KEPT_MS)


class RunningStatements:
    """Those of this server."""

    def __init__(self, *, store: Store, clock: Clock, files: ResultFiles, runner: SqlRunner) -> None:
        self._store = store
        self._clock = clock
        self._files = files
        self._runner = runner
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.leaving = False  # the server stops: who can goes on elsewhere

    def begin(self, caller: Caller, row: StatementRow, query: Query, *, byte_limit: int | None) -> None:
        """Run a statement whose row is stored."""
        task = asyncio.create_task(self._run(caller, row, query, byte_limit))
        self._tasks[row.statement_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(row.statement_id, None))

    async def wait(self, statement_id: str, seconds: float) -> None:
        """Returns once the statement has ended, or after that time."""
        if (task := self._tasks.get(statement_id)) is not None:
            await asyncio.wait({task}, timeout=seconds)

    def has(self, statement_id: str) -> bool:
        """Whether the statement runs here."""
        return statement_id in self._tasks

    def stop(self, statement_id: str) -> None:
        """End a statement, if it runs here."""
        if (task := self._tasks.get(statement_id)) is not None:
            task.cancel()

    async def close(self) -> None:
        """The server stops. What runs ends, or is left to another server if its session outlives this one."""
        self.leaving = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:  # a driver may not answer: what is left is heard of no more, and FAILED then
            await asyncio.wait(tasks, timeout=STOP_S)

    async def _run(self, caller: Caller, row: StatementRow, query: Query, byte_limit: int | None) -> None:
        beat = asyncio.create_task(self._beat(row.statement_id, asyncio.current_task()))
        try:
            manifest = await self._result(caller, row, query, byte_limit)
            await self.finish(row.statement_id, ExecutionState.SUCCEEDED, manifest=manifest)
        except StatementFailed as error:
            failure = ServiceError(error_code=error.error_code, message=error.message)
            await self.finish(row.statement_id, ExecutionState.FAILED, error=failure, sql_state=error.sql_state)
        except ApiError as error:
            await self.finish(
                row.statement_id, ExecutionState.FAILED, error=ServiceError(error_code="BAD_REQUEST", message=error.message)
            )
        except asyncio.CancelledError:
            # Canceled by its user, which is recorded already, or the server stops.
            if self.leaving and query.session is not None:
                raise
            stopped = ServiceError(error_code="CANCELLED", message="The server that ran this statement was stopped.")
            await asyncio.shield(self.finish(row.statement_id, ExecutionState.FAILED, error=stopped))
            raise
        except Exception:
            log.exception("statement_failed", statement_id=row.statement_id)
            message = "The server failed to run this statement. Its log says why."
            await self.finish(
                row.statement_id, ExecutionState.FAILED, error=ServiceError(error_code="INTERNAL_ERROR", message=message)
            )
        finally:
            beat.cancel()

    async def _result(self, caller: Caller, row: StatementRow, query: Query, byte_limit: int | None) -> Manifest:
        """Run it, and keep its result: a part of it is in memory at a time."""
        chunks, columns = list[ChunkInfo](), list[ColumnInfo]()
        rows = size = 0
        truncated = False
        async with contextlib.aclosing(self._runner.run(caller, query)) as parts:  # type: ignore[type-var] # it is a generator
            async for part in parts:
                if not part.rows:
                    columns = self._runner.columns(part.stream)
                    await self._change(
                        row.statement_id, lambda found: msgspec.structs.replace(found, state=ExecutionState.RUNNING)
                    )
                    continue
                if byte_limit is not None and chunks and size + len(part.stream) > byte_limit:
                    truncated = True
                    break
                if row.disposition is Disposition.INLINE and size + len(part.stream) > MAX_INLINE:
                    raise StatementFailed(
                        "Inline byte limit exceeded. Statements executed with disposition=INLINE can have a result size of at "
                        f"most {MAX_INLINE} bytes. Use disposition=EXTERNAL_LINKS.",
                        error_code="BAD_REQUEST",
                    )
                await asyncio.to_thread(self._files.write, row.statement_id, len(chunks), part.stream)
                info = ChunkInfo(chunk_index=len(chunks), row_offset=rows, row_count=part.rows, byte_count=len(part.stream))
                chunks.append(info)
                rows, size = rows + part.rows, size + len(part.stream)
        if query.row_limit is not None and rows >= query.row_limit:
            truncated = True
        return Manifest(
            format=row.format,
            schema=ResultSchema(column_count=len(columns), columns=columns),
            total_chunk_count=len(chunks),
            total_row_count=rows,
            total_byte_count=size,
            truncated=truncated,
            chunks=chunks,
        )

    async def _beat(self, statement_id: str, running: asyncio.Task[None] | None) -> None:
        """Says that it still runs, and ends it if it was canceled through another server."""
        while True:
            await asyncio.sleep(BEAT_MS / 1000)
            now = self._clock.now_ms()
            with contextlib.suppress(DatabaseTrouble):
                found = await self._change(statement_id, functools.partial(_heard, now_ms=now))
                if found is None and running is not None:
                    running.cancel()
                    return

    async def finish(
        self,
        statement_id: str,
        state: ExecutionState,
        *,
        manifest: Manifest | None = None,
        error: ServiceError | None = None,
        sql_state: str = "",
    ) -> StatementRow | None:
        """Records how a statement ended. Returns None if it had ended before, which stays."""
        until = self._clock.now_ms() + KEPT_MS
        return await self._change(
            statement_id,
            lambda found: msgspec.structs.replace(
                found, state=state, manifest=manifest, error=error, sql_state=sql_state, expires_ms=until
            ),
        )

    async def _change(self, statement_id: str, change: Change) -> StatementRow | None:
        def work(tx: Tx) -> StatementRow | None:
            found = tx.rows(StatementRows).get(statement_id)
            if found is None or found.state.final:
                return None
            changed = change(found)
            tx.rows(StatementRows).update(changed)
            return changed

        return await self._store.write(work, background=True)
