"""HTTP connections to clusters' web servers, kept open between requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from brickyard.nodes.ways import short

if TYPE_CHECKING:
    import aiohttp

MAX_SESSIONS = 64  # web servers whose connections are kept open, besides those of which somebody asks something
MAX_CONNECTIONS = 32  # to one of them


class Connections:
    """One session for each way into a cluster, so that no web server can keep others' connections. `read_s`: how long a web
    server may send nothing."""

    def __init__(self, *, read_s: float) -> None:
        self._read_s = read_s
        self._sessions: dict[str, aiohttp.ClientSession] = {}  # most recently used last
        self._requests = Counter[str]()  # in progress
        self._closing: set[asyncio.Task[None]] = set()

    @contextlib.contextmanager
    def to(self, way: str, host: str = "") -> Iterator[aiohttp.ClientSession]:
        """The session for a Unix socket or, without one, for that host. It stays open for the request that is made meanwhile."""
        key = way or host
        self._requests[key] += 1
        try:
            yield self._session(key, way)
        finally:
            self._requests[key] -= 1
            if not self._requests[key]:
                del self._requests[key]
            self._close_idle()

    def _session(self, key: str, way: str) -> aiohttp.ClientSession:
        import aiohttp  # noqa: PLC0415 - a fifth of a server's start; see nodes/client.py

        session = self._sessions.pop(key, None)
        if session is None:
            session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=self._read_s),
                connector=aiohttp.UnixConnector(short(way), limit=MAX_CONNECTIONS)
                if way
                else aiohttp.TCPConnector(limit=MAX_CONNECTIONS),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
            )
        self._sessions[key] = session
        return session

    def _close_idle(self) -> None:
        """Closes what was not used for longest, if there are too many."""
        idle = [key for key in self._sessions if key not in self._requests]
        for key in idle[: max(0, len(idle) - MAX_SESSIONS)]:
            self._close(key)

    async def close(self) -> None:
        """Closes all connections."""
        for key in list(self._sessions):
            self._close(key)
        await asyncio.gather(*self._closing)

    def _close(self, key: str) -> None:
        """Closes its connections; requests in progress there break off."""
        if (session := self._sessions.pop(key, None)) is not None:
            closing = asyncio.create_task(session.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
