"""Statements of tasks on SQL warehouses, as runs ask for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from brickyard.domain.sqltasks import SqlStatement, SqlTable
from brickyard.store.tx import Tx


class TaskStatement(NamedTuple):
    """A statement of a task, in the session that all the attempt's statements share. `catalog` and `schema`: where the session
    is before it; "" leaves it where it is. `refusal`: why it may not begin any more, "" if it may; asked right before it does."""

    statement_id: str
    session_id: str
    user_name: str
    cluster_id: str
    statement: SqlStatement
    catalog: str
    schema: str
    application: str
    refusal: Callable[[], Awaitable[str]]


class StatementEnd(NamedTuple):
    """How a statement has ended. `error`: "" if it has succeeded."""

    error: str = ""
    table: SqlTable = SqlTable()


class StatementSilent(Exception):
    """The warehouse did not answer: repeat the call."""


class TaskStatements(Protocol):
    """Runs each statement once. Implemented by `features.statements`."""

    def record(self, tx: Tx, statement: TaskStatement) -> None:
        """Records a statement that is about to begin. `start` follows the commit."""
        ...

    async def start(self, statement: TaskStatement) -> None:
        """Begins a recorded statement on this server."""
        ...

    async def look(self, statement: TaskStatement, *, wait_s: float) -> StatementEnd | None:
        """How it has ended; None while it runs. Waits for its end for so long. One whose server has ended goes on here."""
        ...

    async def end(self, statement: TaskStatement) -> None:
        """Ends the statement, if it runs, and its session, in which nothing begins any more. May be repeated. Raises
        StatementSilent."""
        ...
