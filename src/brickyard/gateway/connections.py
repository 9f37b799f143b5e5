"""HTTP connections to clusters' web servers, kept open between requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from brickyard.nodes.ways import short

if TYPE_CHECKING:
    import aiohttp

MAX_SESSIONS = 64  # web servers whose connections are kept open
MAX_CONNECTIONS = 32  # to one of them


class Connections:
    """One session for each way into a cluster, so that no web server can keep others' connections. `read_s`: how long a web
    server may send nothing."""

    def __init__(self, *, read_s: float) -> None:
        self._read_s = read_s
        self._sessions: dict[str, aiohttp.ClientSession] = {}  # most recently used last
        self._closing: set[asyncio.Task[None]] = set()

    def to(self, way: str, host: str = "") -> aiohttp.ClientSession:
        """The session for a Unix socket or, without one, for that host."""
        import aiohttp  # noqa: PLC0415 - a fifth of a server's start; see nodes/client.py

        key = way or host
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
        if len(self._sessions) > MAX_SESSIONS:
            self._close(next(iter(self._sessions)))
        return session

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
