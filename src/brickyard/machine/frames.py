"""Carries a connection through TLS, which has no half-close in asyncio: as frames.

A frame is its length in four bytes and that many bytes. Length 0 says that nothing more comes in this direction; the other one
goes on. An end without it is a break, and resets the connection at the other end. (Of a Unix socket, the kernel tells the peer
only that it is closed.)
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import struct
from collections.abc import Coroutine
from typing import Any, NamedTuple

CHUNK = 256 << 10
HANG_UP_S = 1.0  # how often to look whether somebody who says nothing more has gone altogether
_HEAD = struct.Struct(">I")
# Finds out within about a minute that the other machine has vanished. Not every system has all of them.
_ALIVE = (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 4), ("TCP_USER_TIMEOUT", 60_000))


class Streams(NamedTuple):
    """An open connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def carry(framed: Streams, plain: Streams) -> None:
    """Carries bytes both ways until both directions are over, or one side breaks. Closes both. Raises CancelledError alone."""
    out = asyncio.create_task(_wrap(plain.reader, framed.writer))
    back = asyncio.create_task(_unwrap(framed.reader, plain.writer))
    both: asyncio.Future[Any] = asyncio.gather(out, back)
    # After the last frame of a direction, nothing else would notice that its sender has gone altogether.
    watching = (
        asyncio.create_task(_after(back, framed.reader.read(1))),
        asyncio.create_task(_after(out, _hung_up(plain.writer))),
    )
    whole = False
    try:
        await asyncio.wait({both, *watching}, return_when=asyncio.FIRST_COMPLETED)
        whole = all(each.done() and not each.cancelled() and each.exception() is None for each in (out, back))
    finally:
        for task in (out, back, *watching):
            task.cancel()
        await asyncio.gather(both, out, back, *watching, return_exceptions=True)
        for each in (framed, plain):
            if whole:
                each.writer.close()
            else:
                reset(each.writer)


def keep_alive(writer: asyncio.StreamWriter) -> None:
    """Has the kernel find out when the other machine has vanished."""
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError, AttributeError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for name, value in _ALIVE:
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def reset(writer: asyncio.StreamWriter) -> None:
    """Closes at once, so that the other side sees a break and no end."""
    with contextlib.suppress(OSError, AttributeError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
    writer.transport.abort()


async def _wrap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(_HEAD.pack(len(data)) + data)  # one record of TLS, if it is small
        await writer.drain()
    writer.write(_HEAD.pack(0))
    await writer.drain()


async def _unwrap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while left := _HEAD.unpack(await reader.readexactly(_HEAD.size))[0]:
        while left:
            if not (data := await reader.read(min(left, CHUNK))):
                raise EOFError("a frame was cut off")
            left -= len(data)
            writer.write(data)
            await writer.drain()
    writer.write_eof()


async def _after(first: asyncio.Task[None], then: Coroutine[Any, Any, object]) -> None:
    """Does `then` once `first` has succeeded."""
    try:
        await asyncio.shield(first)
        await then
    finally:
        then.close()


async def _hung_up(writer: asyncio.StreamWriter) -> None:
    """Returns when the plain side is closed, not only for writing. Only a Unix socket can tell before something is written."""
    connection = writer.get_extra_info("socket")
    if connection is None or connection.family != socket.AF_UNIX:
        await asyncio.Event().wait()
    watched = select.poll()
    watched.register(connection.fileno(), 0)  # POLLHUP is always told
    while not any(event & select.POLLHUP for _, event in watched.poll(0)):  # noqa: ASYNC110 - nothing sets an event
        await asyncio.sleep(HANG_UP_S)
