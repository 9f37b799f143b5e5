"""A large result as files that links lead to, for a client that downloads results.

The files are written as the client asks for the first one, then some ahead of it. What is written is read over plain HTTP, from
any server, in any order and several times: answers of the SQL protocol only name it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

import structlog

from brickyard.domain.errors import ApiError, is_full_disk
from brickyard.features.statements.linked import Link, LinkedResults
from brickyard.features.statements.results import ChunkWriter
from brickyard.features.statements.rules import KEPT_MS
from brickyard.gateway.sql.driver import Chunk, Part
from brickyard.gateway.sql.failures import SqlFailed
from brickyard.gateway.sql.ipc import END, cut

FILE_BYTES = 16 << 20  # a file ends with the part of Spark's that makes it that large
AHEAD_BYTES = 64 << 20  # written files whose links no client has yet
FETCH_BYTES = 4 << 20  # at once from the driver
MAX_LINKS = 32  # in one answer
WAIT_S = 9000.0  # a client that waits for a file is there for so long
KEEP_S = KEPT_MS / 4000  # how often the files of a result that is read are kept for longer
NO_DISK = "53100"  # SQLSTATE: disk_full
NO_SPACE = "The result does not fit on the disk of the workspace's storage."

T = TypeVar("T")
log = structlog.get_logger(__name__)


class File(NamedTuple):
    """`start`: the number of its first row; `size`: before compression."""

    number: int
    start: int
    rows: int
    size: int


class Links(NamedTuple):
    """What a fetch returns: files with their links, and whether more follow. `start`: of the first file's first row."""

    files: list[tuple[File, Link]]
    start: int
    more: bool


class Source(Protocol):
    """An `Operation`."""

    id: str
    schema: bytes

    async def fetch(self, max_bytes: int, *, for_client: bool) -> Part: ...
    def touch(self, seconds: float | None = None) -> None: ...


class LinkedResult:
    """Of one operation."""

    def __init__(self, operation: Source, results: LinkedResults, *, compressed: bool) -> None:
        self._operation = operation
        self._results = results
        self._compressed = compressed
        self._files: list[File] = []
        self._given = 0  # files whose links the client has
        self._waiting = 0  # fetches that wait for a file
        self._complete = False
        self._error: SqlFailed | None = None
        self._moved = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None  # begins with the first fetch: until then, another server may go on
        self._kept = time.monotonic()

    async def fetch(self, base_url: str, *, start: int | None = None) -> Links:
        """Links to what is written; waits for one at least, unless this is the end. `start`: again from the file with that row.
        Raises SqlFailed."""
        if self._task is None:
            self._task = asyncio.create_task(self._write())
        if time.monotonic() - self._kept > KEEP_S:
            self._kept = time.monotonic()
            await self._results.keep(self._operation.id)
        async with self._moved:
            if start is not None:
                self._given = next(
                    (each.number for each in self._files if each.start <= start < each.start + each.rows), self._given
                )
            self._waiting += 1
            self._operation.touch(WAIT_S)
            self._moved.notify_all()
            try:
                await self._moved.wait_for(lambda: self._given < len(self._files) or self._complete)
            finally:
                self._waiting -= 1
                self._operation.touch()
            files = self._files[self._given : self._given + MAX_LINKS]
            if not files and self._error is not None:
                raise self._error
            self._given += len(files)
            self._moved.notify_all()
            more = not self._complete or self._given < len(self._files) or self._error is not None
        links = [(each, self._results.link(base_url, self._operation.id, each.number)) for each in files]
        return Links(links, files[0].start if files else self._rows, more)

    def give_back(self, links: Links) -> None:
        """Undo a fetch, whose client has not got it."""
        if links.files:
            self._given = min(self._given, links.files[0][0].number)

    async def close(self, *, remove: bool) -> None:
        """Stop writing. `remove` the files now; otherwise they stay as long as the client may read what it has links to."""
        await self.leave()
        with contextlib.suppress(ApiError, OSError):  # they expire
            await (self._results.remove if remove else self._results.close)(self._operation.id)

    async def leave(self) -> None:
        """Stop writing, and leave the files."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # --- inside ---

    @property
    def _rows(self) -> int:
        return self._files[-1].start + self._files[-1].rows if self._files else 0

    async def _write(self) -> None:
        try:
            more = True
            while more:
                await self._turn()
                more = await self._write_file()
        except SqlFailed as error:
            self._error = error
        except OSError as error:
            log.warning("result_not_written", operation_id=self._operation.id, why=str(error))
            self._error = (
                SqlFailed(NO_SPACE, sql_state=NO_DISK)
                if is_full_disk(error)
                else SqlFailed(f"The result was not written: {error.strerror}.")
            )
        except Exception:
            log.exception("result_not_written", operation_id=self._operation.id)
            self._error = SqlFailed("The server failed to write this result. Its log says why.")
        async with self._moved:
            self._complete = True
            self._moved.notify_all()

    async def _turn(self) -> None:
        """Wait until the next file is due: not too far ahead of the client."""
        async with self._moved:
            await self._moved.wait_for(lambda: sum(each.size for each in self._files[self._given :]) < AHEAD_BYTES)

    async def _write_file(self) -> bool:
        """Write one file. Returns whether there are more. A client that waits gets what is here."""
        writer: ChunkWriter | None = None
        rows, more = 0, True
        try:
            while more and (writer is None or not (writer.size >= FILE_BYTES or self._wanted)):
                part = await self._operation.fetch(FETCH_BYTES, for_client=False)
                more = part.more
                if part.chunks:
                    if writer is None:
                        writer = await _done(self._begun)
                    await _done(functools.partial(_append, writer, self._operation.schema, part.chunks))
                    rows += sum(chunk.rows for chunk in part.chunks)
            if writer is not None:
                whole, writer = writer, None
                await _done(functools.partial(_finish, whole))
                async with self._moved:
                    self._files.append(File(len(self._files), self._rows, rows, whole.size))
                    self._complete = not more  # told with the file: a client need not ask for an empty rest
                    self._moved.notify_all()
            return more
        finally:
            if writer is not None:
                writer.discard()

    @property
    def _wanted(self) -> bool:
        return bool(self._waiting) and self._given >= len(self._files)

    def _begun(self) -> ChunkWriter:
        return self._results.writer(self._operation.id, len(self._files), compressed=self._compressed)


def _append(writer: ChunkWriter, schema: bytes, chunks: Sequence[Chunk]) -> None:
    if not writer.size:
        writer.write(schema)
    for chunk in chunks:
        writer.write(cut(chunk.stream).batches)


def _finish(writer: ChunkWriter) -> None:
    writer.write(END)
    writer.commit()


async def _done(call: Callable[[], T]) -> T:
    """What a blocking call returns. Cancelling waits for its end: nothing is written after the files were removed."""
    work = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        raise
