"""Keeps a statement from running twice when its client sends the call again because it got no answer.

Databricks' SDKs repeat a call whose connection broke. While the server lives, it knows that the client was gone, and gives the
repetition the statement that it has begun. What a killed server has not answered is known from the database: the repetition is
refused once, with the statement's id.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, bindparam, delete, insert, select

from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.errors import Aborted, DatabaseTrouble
from brickyard.features.statements.model import ExecuteStatement, StatementRow
from brickyard.features.statements.rows import StatementRows
from brickyard.store.store import Store
from brickyard.store.tables import statement_calls as t
from brickyard.store.tx import Tx

REPEATED_MS = 10 * 60_000  # how long a call counts as unanswered: SDKs repeat one for five minutes
_GET = select(t.c.statement_id).where(t.c.call_key == bindparam("key"), t.c.expires_ms > bindparam("now"))


class CallRows:
    """Rows of calls without an answer, within one transaction."""

    def __init__(self, connection: Connection, *, locking: bool) -> None:
        del locking  # there is one row, whose key two transactions cannot both insert
        self._connection = connection

    def get(self, key: str, now_ms: int) -> str | None:
        """The statement of such a call."""
        return self._connection.execute(_GET, {"key": key, "now": now_ms}).scalar()

    def insert(self, key: str, statement_id: str, expires_ms: int) -> None:
        self._connection.execute(insert(t), {"call_key": key, "statement_id": statement_id, "expires_ms": expires_ms})

    def delete(self, key: str) -> None:
        self._connection.execute(delete(t).where(t.c.call_key == key))

    def forget(self, now_ms: int) -> None:
        """Delete those that are too old."""
        self._connection.execute(delete(t).where(t.c.expires_ms <= now_ms))


class _Lost(NamedTuple):
    statement_id: str
    until_ms: int


class StatementCalls:
    """One per server."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._open: dict[str, asyncio.Event] = {}  # calls without an answer, here
        self._lost: dict[str, _Lost] = {}  # whose clients were gone

    async def admit(self, key: str, row: StatementRow) -> str | None:
        """Inserts the statement; or returns the id of that of the same call whose answer was lost. Ends with `lost` or
        `answered`. Raises Aborted: nobody knows whether the client of that call has its answer."""
        while (twin := self._open.get(key)) is not None:
            await twin.wait()
        self._open[key] = asyncio.Event()
        try:
            now = self._clock.now_ms()
            if (known := self._lost.pop(key, None)) is not None and known.until_ms > now:
                return known.statement_id
            unanswered = await self._store.write(lambda tx: _begin(tx, key, row, now))
        except BaseException:
            self._settled(key)
            raise
        if unanswered is None:
            return None
        self._settled(key)
        raise Aborted(
            f"The server ended before it answered this call, which had begun statement {unanswered}. That statement was not "
            "started again. Look at it, and send the call again if the statement has to run once more."
        )

    def lost(self, key: str, statement_id: str) -> None:
        """The client was gone before it had an answer."""
        now = self._clock.now_ms()
        self._lost = {each: lost for each, lost in self._lost.items() if lost.until_ms > now}
        self._lost[key] = _Lost(statement_id, now + REPEATED_MS)
        self._settled(key)

    async def answered(self, key: str) -> None:
        """The client has the answer."""
        try:
            with contextlib.suppress(DatabaseTrouble):  # the same call is then refused once
                await self._store.write(lambda tx: tx.rows(CallRows).delete(key), background=True)
        finally:
            self._settled(key)

    def _settled(self, key: str) -> None:
        if (event := self._open.pop(key, None)) is not None:
            event.set()


def _begin(tx: Tx, key: str, row: StatementRow, now_ms: int) -> str | None:
    """Inserts both rows; or returns the statement of a call without an answer, which is forgotten."""
    unanswered = tx.rows(CallRows).get(key, now_ms)
    tx.rows(CallRows).delete(key)
    if unanswered is None:
        tx.rows(CallRows).insert(key, row.statement_id, now_ms + REPEATED_MS)
        tx.rows(StatementRows).insert(row)
    return unanswered


def call_key(caller: Caller, request: ExecuteStatement) -> str:
    """Equal for a call and its repetition."""
    same = msgspec.structs.replace(request, source="", base_url="", user_agent="")
    return hashlib.sha256(caller.user_id.encode() + b" " + msgspec.json.encode(same)).hexdigest()
