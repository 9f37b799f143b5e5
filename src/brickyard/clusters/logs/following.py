"""Follows logs: gives each follower what is written, as it is written, for one event loop.

Each followed log has one reader, however many follow it: it reads from the lowest position that is waited for, and hands every
follower its part, after which all of them wait at the same place. A follower that does not take what it got is not waiting, so
nothing is kept for it; when it comes back, it is read for from where it was.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple

import msgspec

from brickyard.access.credentials import renewed
from brickyard.clusters.logs.service import MAX_READ, ClusterLogs, LogName, NodePiece
from brickyard.domain import nodeops
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.errors import ApiError, DatabaseTrouble, QuotaExceeded, RequestLimitExceeded, TemporarilyUnavailable
from brickyard.domain.nodeops import ReadLog
from brickyard.domain.quotas import Occupancy, Quota, Slot
from brickyard.store.changeset import Changes
from brickyard.store.store import Store

PAUSE_S = 0.5  # between two looks at a log in which nothing new is
IDLE_S = 15.0  # without anything new; then a keep-alive is sent and the caller's rights are checked again
FOLLOWERS = Quota("logs that are followed", total=1_000, share=50, reserve=100, admin_share=50)  # of one server


class Followed(NamedTuple):
    """What a follower gets: `text`, which begins at `offset` of its file; `skipped` says that something before it is missing.
    With `ended`, nothing more will come. To continue after it, pass `position`."""

    position: str
    offset: int
    text: str
    skipped: bool
    ended: bool


class LogFollowers:
    """All followers of this server."""

    def __init__(self, *, logs: ClusterLogs, store: Store, clock: Clock, pause_s: float = PAUSE_S) -> None:
        self._logs = logs
        self._store = store
        self._clock = clock
        self._pause_s = pause_s
        self._readers: dict[_Log, _Reader] = {}
        self._open = Occupancy()
        self._identity_changes = 0
        self.closed = False
        store.on_commit(self._committed)

    async def follow(self, caller: Caller, cluster_id: str, file: str, asked: ReadLog) -> Follower:
        """A follower from `asked.position` or `asked.offset` on; close it after use. Raises ApiError."""
        slot = self._open.enter(FOLLOWERS, caller, error=QuotaExceeded)
        try:
            name = LogName.parse(file)
            nodes = await self._logs.nodes(caller, cluster_id)
            first = await self._logs.piece(cluster_id, name, asked, nodes)
        except BaseException:
            slot.release()
            raise
        return Follower(self, caller, cluster_id, name, first, since_ms=self._clock.now_ms(), slot=slot)

    def close(self) -> None:
        """Ends all followers, because the server stops."""
        self.closed = True
        for reader in list(self._readers.values()):
            reader.stop()

    async def after(self, cluster_id: str, name: LogName, position: str) -> NodePiece:
        """What comes after a position, once there is something or the node has ended. Raises ApiError."""
        log = _Log(cluster_id, name)
        reader = self._readers.get(log)
        if reader is None:
            reader = self._readers[log] = _Reader(self._logs, log, pause_s=self._pause_s, readers=self._readers)
        return await reader.after(position)

    async def allowed(self, follower: Follower) -> bool:
        """Whether the caller may still read the log. Looks once in a while, and whenever callers have changed."""
        if self.closed:
            return False
        now_s, changes = asyncio.get_running_loop().time(), self._identity_changes
        if now_s < follower.checked_s + IDLE_S and changes == follower.checked_changes:
            return True
        follower.checked_s, follower.checked_changes = now_s, changes
        now_ms = self._clock.now_ms()
        try:
            caller = await self._store.read(lambda tx: renewed(tx, follower.caller, now_ms=now_ms, made_by_ms=follower.since_ms))
            if caller is not None:
                await self._logs.nodes(caller, follower.cluster_id)
        except (DatabaseTrouble, RequestLimitExceeded):
            return True
        except ApiError:
            return False
        return caller is not None

    def _committed(self, changes: Changes) -> None:
        self._identity_changes += changes.identity or bool(changes.lost)


class Follower:
    """One client's view of a log. Created by `LogFollowers.follow`."""

    def __init__(
        self,
        followers: LogFollowers,
        caller: Caller,
        cluster_id: str,
        name: LogName,
        first: NodePiece,
        *,
        since_ms: int,
        slot: Slot,
    ) -> None:
        self.caller = caller
        self.cluster_id = cluster_id
        self.since_ms = since_ms
        self._followers = followers
        self._name = name
        self._first = first
        self.checked_s, self.checked_changes = 0.0, -1
        self._slot = slot

    def close(self) -> None:
        """Stops following."""
        self._slot.release()

    async def texts(self) -> AsyncIterator[Followed | None]:
        """Yields what is written, and None from time to time otherwise. Ends when the node has ended and everything was
        delivered, when the server stops, or when the caller may no longer read the log."""
        found: NodePiece | None = self._first
        decoder, last = codecs.getincrementaldecoder("utf-8")("replace"), ""
        while found is not None:
            piece, before = found.piece, len(decoder.getstate()[0])
            ended = piece.at_end and not found.running
            file = nodeops.place(piece.start)[0]
            torn = ""
            if before and file != last:  # the rest of that character never came
                torn, before = decoder.decode(b"", final=True), 0
            last = file
            text = torn + decoder.decode(piece.data, final=ended)
            if text or piece.skipped or ended:
                position = nodeops.moved(piece.next, -len(decoder.getstate()[0]))
                yield Followed(position, piece.offset - before, text, piece.skipped, ended)
            if ended:
                return
            found = None
            async for found in self._next(piece.next):
                if found is None:
                    yield None

    async def _next(self, position: str) -> AsyncIterator[NodePiece | None]:
        """Yields what comes after a position, after None for each time that it has waited long. Ends early when following must
        end."""
        while await self._followers.allowed(self):
            try:
                async with asyncio.timeout(IDLE_S):
                    found = await self._followers.after(self.cluster_id, self._name, position)
            except TimeoutError:
                yield None
                continue
            except ApiError:
                return  # the log no longer exists
            if await self._followers.allowed(self):  # the wait may have been long
                yield found
            return


class _Log(NamedTuple):
    cluster_id: str
    name: LogName


class _Reader:
    """Reads one log for all who wait for more of it. When nobody waits, it ends, and is no longer among the `readers`."""

    def __init__(self, logs: ClusterLogs, log: _Log, *, pause_s: float, readers: dict[_Log, _Reader]) -> None:
        self._logs = logs
        self._log = log
        self._pause_s = pause_s
        self._readers = readers
        self._waiting: dict[asyncio.Future[NodePiece], str] = {}
        self._more = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def after(self, position: str) -> NodePiece:
        waiting: asyncio.Future[NodePiece] = asyncio.get_running_loop().create_future()
        self._waiting[waiting] = position
        self._more.set()
        try:
            return await waiting
        finally:
            self._waiting.pop(waiting, None)

    def stop(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._waiting:
                self._more.clear()
                found = False
                for position in self._lowest():
                    found = await self._deliver(position) or found
                if not found:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._pause_s):
                            await self._more.wait()
        finally:
            self._readers.pop(self._log)
            for waiting in self._waiting:  # there are some if the server stops, or if reading failed as it never should
                if not waiting.done():
                    waiting.set_exception(TemporarilyUnavailable("The log is not read any more."))

    def _lowest(self) -> list[str]:
        """The lowest position in each file that is waited for: there are several while a log is being rolled."""
        found: dict[str, str] = {}
        for position in self._waiting.values():
            file, offset = nodeops.place(position)
            if file not in found or offset < nodeops.place(found[file])[1]:
                found[file] = position
        return list(found.values())

    async def _deliver(self, position: str) -> bool:
        """Reads from a position; returns whether anybody got something."""
        try:
            asked = ReadLog(name="", position=position, limit=MAX_READ)
            nodes = await self._logs.instances(self._log.cluster_id)
            found = await self._logs.piece(self._log.cluster_id, self._log.name, asked, nodes)
        except (TemporarilyUnavailable, DatabaseTrouble, RequestLimitExceeded):
            return False  # the node is ending, or overloaded
        except ApiError as error:
            self._fail(position, error)
            return True
        given = False
        for waiting, at in list(self._waiting.items()):
            part = found if nodeops.place(at) == nodeops.place(position) else _from(found, at)
            news = part is not None and (part.piece.data or part.piece.skipped or (part.piece.at_end and not part.running))
            if part is not None and news and not waiting.done():
                waiting.set_result(part)
                given = True
        return given

    def _fail(self, position: str, error: ApiError) -> None:
        for waiting, at in self._waiting.items():
            if nodeops.place(at) == nodeops.place(position) and not waiting.done():
                waiting.set_exception(error)


def _from(found: NodePiece, position: str) -> NodePiece | None:
    """The rest of a piece from a position within it, or None if it is not in it."""
    piece = found.piece
    file, offset = nodeops.place(position)
    gone = offset - piece.offset
    if file != nodeops.place(piece.start)[0] or not 0 <= gone <= len(piece.data):
        return None
    start, data = nodeops.moved(piece.start, gone), piece.data[gone:]
    return NodePiece(msgspec.structs.replace(piece, start=start, offset=offset, data=data, skipped=False), found.running)
