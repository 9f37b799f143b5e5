"""Streamed answers: pieces are sent as they come, no faster than the client reads them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from starlette.types import Receive, Send

from brickyard.domain.errors import PermissionDenied


class Source(Protocol):
    """What pieces come from, such as an open file."""

    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Stream:
    """`source` is closed once the answer has ended for any reason, even if no piece was ever requested."""

    pieces: AsyncIterator[bytes]
    source: Source | None = None
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()
    status: int = 200
    endless: bool = False  # it may end after any piece, and its client then asks again

    def close(self) -> None:
        """Closes the source."""
        if self.source is not None:
            self.source.close()


async def while_admitted(answer: Stream, admit: Callable[[], Awaitable[None]]) -> AsyncIterator[bytes]:
    """The pieces of an answer, until `admit` raises PermissionDenied: an endless one ends, another breaks off."""
    async for piece in answer.pieces:
        try:
            await admit()
        except PermissionDenied:
            if answer.endless:
                return
            raise
        yield piece


async def send_pieces(pieces: AsyncIterator[bytes], receive: Receive, send: Send) -> None:
    """Sends all pieces, after the headers; ends early when the client disconnects. Errors of `pieces` propagate: the connection
    is then closed mid-answer, so that the answer does not look complete."""
    sending, gone = asyncio.create_task(_send_all(pieces, send)), asyncio.create_task(until_gone(receive))
    try:
        await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended = sending.done()
        sending.cancel()
        gone.cancel()
        await asyncio.gather(sending, gone, return_exceptions=True)
    if ended:
        sending.result()


async def until_gone(receive: Receive) -> None:
    """Returns when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_all(pieces: AsyncIterator[bytes], send: Send) -> None:
    async for piece in pieces:  # `send` waits until the client has read what was sent
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
