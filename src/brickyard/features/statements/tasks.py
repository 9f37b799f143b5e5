"""Statements of SQL tasks. Implements `clusters.statements.TaskStatements`.

A task's statement outlives its server: Spark goes on with it for some minutes, and the server that asks for it next takes it up
by its id. Spark runs an id once, and nothing in a session that has ended.
"""

from __future__ import annotations

import asyncio
import functools

import msgspec
import structlog

from brickyard.access.principals import active_principal, caller_of
from brickyard.clusters.statements import StatementEnd, StatementSilent, TaskStatement
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.errors import ApiError, DatabaseTrouble
from brickyard.domain.sqltasks import SqlTable
from brickyard.domain.statements import StatementSource
from brickyard.features.statements.model import (
    Disposition,
    ExecutionState,
    Format,
    Manifest,
    Parameter,
    Query,
    ServiceError,
    Session,
    SqlRunner,
    StatementFailed,
    StatementRow,
)
from brickyard.features.statements.results import ResultFiles
from brickyard.features.statements.rows import StatementRows
from brickyard.features.statements.rules import KEPT_MS, LOST_MS
from brickyard.features.statements.running import RunningStatements
from brickyard.store.store import Store
from brickyard.store.tx import Tx

SHOWN_ROWS, SHOWN_CHARACTERS = 1_000, 1 << 20  # of a result that is kept with the run
log = structlog.get_logger(__name__)
FORGOTTEN = "The statement has run. Its result is no longer known."


class TaskStatementService:
    """One per server."""

    def __init__(self, *, store: Store, clock: Clock, running: RunningStatements, files: ResultFiles, runner: SqlRunner) -> None:
        self._store = store
        self._clock = clock
        self._running = running
        self._files = files
        self._runner = runner

    def record(self, tx: Tx, statement: TaskStatement) -> None:
        user, now = tx.users.get(statement.user_name), self._clock.now_ms()
        row = StatementRow(
            statement_id=statement.statement_id,
            user_name=statement.user_name,
            user_id=user.user_id if user is not None else "",
            warehouse_id=statement.cluster_id,
            created_ms=now,
            beat_ms=now,
            expires_ms=now + KEPT_MS,
            disposition=Disposition.EXTERNAL_LINKS,
            format=Format.JSON_ARRAY,
        )
        tx.rows(StatementRows).insert(row)

    async def start(self, statement: TaskStatement) -> None:
        await self._begin(statement, resume=False)

    async def look(self, statement: TaskStatement, *, wait_s: float) -> StatementEnd | None:
        await self._running.wait(statement.statement_id, wait_s)
        row = await self._store.read(lambda tx: tx.rows(StatementRows).get(statement.statement_id), background=True)
        if row is None:
            return StatementEnd(FORGOTTEN)
        if row.state is ExecutionState.SUCCEEDED and row.manifest is not None:
            return StatementEnd(table=await asyncio.to_thread(self._table, row.statement_id, row.manifest))
        if row.state.final:
            return StatementEnd(row.error.message if row.error is not None else "The statement was canceled.")
        if not self._running.has(statement.statement_id) and await self._take_over(row):
            await self._begin(statement, resume=True)
        return None

    async def end(self, statement: TaskStatement) -> None:
        await self._running.finish(statement.statement_id, ExecutionState.CANCELED)
        self._running.stop(statement.statement_id)
        if (caller := await self._caller(statement)) is None:
            return  # the sessions of users who have lost their access are ended elsewhere
        try:
            await self._runner.end(caller, statement.cluster_id, statement.session_id)
        except StatementFailed as failure:
            if failure.sql_state.startswith("08006"):
                raise StatementSilent(failure.message) from failure
        except DatabaseTrouble:
            raise
        except ApiError as error:  # nothing of it can run
            log.info("session_not_ended", session_id=statement.session_id, why=error.message)

    # --- inside ---

    async def _take_over(self, row: StatementRow) -> bool:
        """Whether this server goes on with a statement that does not run here: no other server speaks of it, nor takes it."""
        now = self._clock.now_ms()
        if self._running.leaving or (not self._store.alone and now - row.beat_ms < LOST_MS):
            return False

        def work(tx: Tx) -> bool:
            if tx.rows(StatementRows).get(row.statement_id) != row:
                return False
            tx.rows(StatementRows).update(msgspec.structs.replace(row, beat_ms=now, expires_ms=now + KEPT_MS))
            return True

        return await self._store.write(work, background=True)

    async def _begin(self, statement: TaskStatement, *, resume: bool) -> None:
        row = await self._store.read(lambda tx: tx.rows(StatementRows).get(statement.statement_id), background=True)
        caller = await self._caller(statement)
        if row is None or row.state.final or self._running.has(row.statement_id):
            return
        if caller is None:
            why = f"{statement.user_name} is no longer an active user of the workspace."
            error = ServiceError(error_code="PERMISSION_DENIED", message=why)
            await self._running.finish(row.statement_id, ExecutionState.FAILED, error=error)
            return
        query = Query(
            row.statement_id,
            statement.statement.text,
            statement.cluster_id,
            statement.cluster_id,
            statement.catalog,
            statement.schema,
            [Parameter(name=each.name, type=each.type, value=each.value) for each in statement.statement.parameters],
            application=statement.application,
            source=StatementSource.JOB,
            session=Session(statement.session_id, resume, lambda: self._running.leaving, statement.refusal),
        )
        self._running.begin(caller, row, query, byte_limit=SHOWN_CHARACTERS)  # the first rows are enough

    async def _caller(self, statement: TaskStatement) -> Caller | None:
        find = functools.partial(active_principal, user_name=statement.user_name)
        owner = await self._store.read(find, background=True)
        return None if owner is None else caller_of(owner, token_id="")

    def _table(self, statement_id: str, manifest: Manifest) -> SqlTable:
        """The first rows of a result. Blocks."""
        columns = tuple((each.name, each.type_text) for each in manifest.schema.columns)
        rows, left = list[list[str | None]](), SHOWN_CHARACTERS
        for index in range(manifest.total_chunk_count):
            for row in self._runner.rows(self._files.read(statement_id, index)):
                left -= sum(len(value or "") + 8 for value in row)
                if left < 0 or len(rows) == SHOWN_ROWS:
                    return SqlTable(columns=columns, rows=rows, truncated=True)
                rows.append(row)
        return SqlTable(columns=columns, rows=rows, truncated=manifest.truncated)
