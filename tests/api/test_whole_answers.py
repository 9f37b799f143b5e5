"""Answers in one write: what the client reads, and when the connection ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest
import requests
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from brickyard.api.edge.serving import KEEP_ALIVE_S, serving
from brickyard.api.edge.whole import WHOLE, WholeAnswers
from tests.support.patience import PATIENCE_S
from tests.support.server import TOKEN, Server

SIZES = (0, 10, 1 << 20)


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """As many bytes as the path says."""
    body = b"x" * int(scope["path"].strip("/"))
    await scope[WHOLE](201, b"content-length: %d\r\n" % len(body), body)


@contextlib.asynccontextmanager
async def served(place: Path) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to a server."""
    config = serving(answer)
    config.load()
    state = ServerState()
    state.default_headers = [(b"server", b"us")]

    made: Any = config.http_protocol_class
    path = str(place / "socket")
    server = await asyncio.get_running_loop().create_unix_server(
        lambda: made(config=config, server_state=state, app_state={}), path
    )
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield reader, writer
    finally:
        writer.close()
        server.close()


async def read(reader: asyncio.StreamReader) -> tuple[list[bytes], bytes]:
    """The lines of the head, and the body."""
    lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[:-2]
    length = next(int(line.split()[1]) for line in lines if line.startswith(b"content-length"))
    return lines, await reader.readexactly(length)


async def test_answers_are_complete_whatever_their_size_and_in_the_order_of_the_requests(tmp_path: Path) -> None:
    async with served(tmp_path) as (reader, writer):
        writer.write(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % size for size in SIZES))
        for size in SIZES:
            assert await read(reader) == (
                [b"HTTP/1.1 201 Created", b"server: us", b"content-length: %d" % size],
                b"x" * size,
            )


@pytest.mark.parametrize("request_line", [b"GET /3 HTTP/1.0\r\n", b"GET /3 HTTP/1.1\r\nConnection: close\r\n"])
async def test_the_last_answer_says_so_and_ends_the_connection(tmp_path: Path, request_line: bytes) -> None:
    async with served(tmp_path) as (reader, writer):
        writer.write(request_line + b"Host: x\r\n\r\n")
        lines, body = await read(reader)
        assert lines[-1] == b"connection: close" and body == b"xxx"
        assert await reader.read() == b""


class Loop:
    """Time passes only when a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(self.now_s + seconds, callback)
        self.timers.append(timer)
        return timer

    def until(self, now_s: float) -> None:
        while due := [each for each in self.timers if each.at_s <= now_s]:
            first = min(due, key=lambda each: each.at_s)
            self.timers.remove(first)
            self.now_s = first.at_s
            if not first.cancelled:
                first.callback()
        self.now_s = now_s


class Timer:
    def __init__(self, at_s: float, callback: Callable[[], None]) -> None:
        self.at_s = at_s
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Peer(asyncio.Transport):
    closed = False

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


async def test_unused_connections_end_and_used_ones_do_not() -> None:
    config = serving(answer)
    config.load()
    protocol, peer, loop = WholeAnswers(config=config, server_state=ServerState(), app_state={}), Peer(), Loop()
    protocol.loop = cast(Any, loop)
    protocol.connection_made(peer)
    protocol.data_received(b"G")
    protocol.on_response_complete()
    loop.until(KEEP_ALIVE_S - 1)
    protocol.data_received(b"E")
    protocol.on_response_complete()
    loop.until(2 * KEEP_ALIVE_S - 2)
    assert not peer.closed, "it was used since then"
    loop.until(2 * KEEP_ALIVE_S)
    assert peer.closed
    protocol.connection_lost(None)
    assert all(each.cancelled for each in loop.timers)


def test_requests_leave_nothing_to_the_cyclic_collector(tmp_path: Path) -> None:
    with Server.running(tmp_path, provider="simulated") as server, requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {TOKEN}"
        gc.collect()
        gc.disable()
        try:
            for _ in range(30):
                assert session.get(f"{server.url}/api/2.1/clusters/list").status_code == 200
                assert session.get(f"{server.url}/api/2.1/clusters/get").status_code == 400
            left = [each for each in gc.get_objects() if isinstance(each, RequestResponseCycle)]
        finally:
            gc.enable()
    assert len(left) <= 1  # a connection refers to its last request
