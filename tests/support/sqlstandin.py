"""Stands in for Spark below the Statement Execution API of a server whose nodes are simulated."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from brickyard.domain.caller import Caller
from brickyard.domain.statements import Statement, StatementOutcome, StatementSource, StatementState
from brickyard.features.statements.model import ColumnInfo, Part, Query, StatementFailed
from tests.support.server import Server

Rows = Sequence[Sequence[str | None]]
Result = tuple[Mapping[str, str], Rows]  # columns with their types, and rows


class SqlStandIn:
    """Answers statements as `answer` says: it returns a result or raises StatementFailed; None: the statement runs until it is
    canceled, or until it answers. The query history hears of each. `ran` is what was sent."""

    def __init__(self, server: Server, answer: Callable[[Query], Result | None]) -> None:
        assert server.application is not None
        services = server.application.parts.services
        self._history = services.query_history
        self._answer = answer
        self.ran: list[Query] = []
        services.statements._runner = services.statements.running._runner = services.statements.tasks._runner = self
        self.ended: list[str] = []  # sessions

    async def run(self, caller: Caller, query: Query) -> AsyncIterator[Part]:
        """See `SqlRunner`."""
        self.ran.append(query)
        statement = Statement(
            statement_id=query.statement_id,
            user_name=caller.user_name,
            cluster_id=query.cluster_id,
            warehouse_id=query.warehouse_id,
            session_id="stand-in",
            text=query.text,
            source=StatementSource.STATEMENT_API,
            started_ms=int(time.time() * 1000),
        )
        self._history.began(statement)
        state, rows, error = StatementState.CANCELED, list[Sequence[str | None]](), ""
        try:
            while (found := self._answer(query)) is None:
                await asyncio.sleep(0.02)
            columns = [{"name": name, "type_text": kind, "type_name": kind} for name, kind in found[0].items()]
            yield Part(0, json.dumps([columns, []]).encode())
            rows = list(found[1])[: query.row_limit]
            half = len(rows) // 2  # a result in two chunks
            for part in (rows[:half], rows[half:]):
                if part:
                    yield Part(len(part), json.dumps([columns, part]).encode())
            state = StatementState.FINISHED
        except StatementFailed as failure:
            state, error = StatementState.FAILED, failure.message
            raise
        finally:
            ended_ms = int(time.time() * 1000)
            self._history.ended(statement, StatementOutcome(state=state, ended_ms=ended_ms, rows_produced=len(rows), error=error))

    async def end(self, caller: Caller, cluster_id: str, session_id: str) -> None:
        """See `SqlRunner`."""
        del caller, cluster_id
        self.ended.append(session_id)

    def columns(self, stream: bytes) -> list[ColumnInfo]:
        """See `SqlRunner`."""
        return [ColumnInfo(position=at, **each) for at, each in enumerate(json.loads(stream)[0])]

    def rows(self, stream: bytes) -> list[list[str | None]]:
        """See `SqlRunner`."""
        rows: list[list[str | None]] = json.loads(stream)[1]
        return rows
