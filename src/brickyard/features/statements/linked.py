"""Results of SQL clients as files that signed links lead to.

The statements run elsewhere (gateway/sql). What is kept here is what any server needs to answer a link and to remove the files of
a server that was killed: a row for each such statement, CLOSED for the Statement Execution API, which has not run it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import NamedTuple

import msgspec

from brickyard.domain.access import Principal
from brickyard.domain.clock import Clock
from brickyard.domain.errors import DatabaseTrouble
from brickyard.features.statements.links import ResultLinks, link_url
from brickyard.features.statements.model import Disposition, ExecutionState, Format, StatementRow
from brickyard.features.statements.results import ChunkWriter, ResultFiles
from brickyard.features.statements.rows import StatementRows
from brickyard.features.statements.rules import KEPT_MS, LINK_MS
from brickyard.store.store import Store
from brickyard.store.tx import Tx

READ_MS = 60_000  # how long a file may still be read again after its statement was closed and all of it was read
MAX_READINGS = 10_000  # statements; the oldest is forgotten, and its files expire


class Link(NamedTuple):
    url: str
    until_ms: int


class _Reading:
    """What of a statement's result its client has not read from this server."""

    def __init__(self) -> None:
        self.unread: set[int] = set()
        self.closed = False


class LinkedResults:
    """One per server. Methods that read or write rows raise DatabaseTrouble."""

    def __init__(self, *, store: Store, clock: Clock, files: ResultFiles, links: ResultLinks) -> None:
        self._store = store
        self._clock = clock
        self._files = files
        self._links = links
        self._readings: dict[str, _Reading] = {}

    async def begin(self, statement_id: str, principal: Principal, *, warehouse_id: str) -> None:
        """Record that the statement's result becomes files, before anybody is told. Once is enough."""
        now = self._clock.now_ms()
        row = StatementRow(
            statement_id=statement_id,
            user_name=principal.user_name,
            user_id=principal.user_id,
            warehouse_id=warehouse_id,
            created_ms=now,
            beat_ms=now,
            expires_ms=now + KEPT_MS,
            disposition=Disposition.EXTERNAL_LINKS,
            format=Format.ARROW_STREAM,
            state=ExecutionState.CLOSED,
        )

        def work(tx: Tx) -> None:
            if tx.rows(StatementRows).get(statement_id) is None:
                tx.rows(StatementRows).insert(row)

        await self._store.write(work)

    async def begun(self, statement_id: str) -> bool:
        """Whether a server has told the statement's client that its result becomes files."""
        return await self._store.read(lambda tx: tx.rows(StatementRows).get(statement_id)) is not None

    def writer(self, statement_id: str, index: int, *, compressed: bool) -> ChunkWriter:
        """Write the next file. Blocks, and raises OSError."""
        return self._files.writer(statement_id, index, compressed=compressed)

    def link(self, base_url: str, statement_id: str, index: int) -> Link:
        """A link to a file, which counts for LINK_MS."""
        if (reading := self._readings.get(statement_id)) is None:
            while len(self._readings) >= MAX_READINGS:
                del self._readings[next(iter(self._readings))]
            reading = self._readings[statement_id] = _Reading()
        reading.unread.add(index)
        until = self._clock.now_ms() + LINK_MS
        return Link(link_url(base_url, statement_id, index, self._links.sign(statement_id, index, until_ms=until)), until)

    async def keep(self, statement_id: str, *, for_ms: int = KEPT_MS) -> None:
        """The files stay for so long from now on, unless they are removed."""
        until = self._clock.now_ms() + for_ms

        def work(tx: Tx) -> None:
            if (found := tx.rows(StatementRows).get(statement_id)) is not None:
                tx.rows(StatementRows).update(msgspec.structs.replace(found, expires_ms=until))

        await self._store.write(work, background=True)

    async def read(self, statement_id: str, index: int) -> None:
        """A client has read that file to its end."""
        if (reading := self._readings.get(statement_id)) is not None:
            reading.unread.discard(index)
            if reading.closed and not reading.unread:
                del self._readings[statement_id]
                with contextlib.suppress(DatabaseTrouble):  # they expire later
                    await self.keep(statement_id, for_ms=READ_MS)

    async def close(self, statement_id: str) -> None:
        """Its client has closed the statement. Some do so once they have all links, and read what they lead to afterwards."""
        reading = self._readings.get(statement_id)
        if reading is None or not reading.unread:
            await self.remove(statement_id)
        else:
            reading.closed = True
            await self.keep(statement_id, for_ms=LINK_MS)

    async def remove(self, statement_id: str) -> None:
        """Remove the files. The row goes last: what is killed in between is removed when the row expires."""
        self._readings.pop(statement_id, None)
        await asyncio.to_thread(self._files.remove, statement_id)
        await self._store.write(lambda tx: tx.rows(StatementRows).delete(statement_id), background=True)
