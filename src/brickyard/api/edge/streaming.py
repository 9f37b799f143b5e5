"""Answers that go on: their pieces as they come, no faster than the client takes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from starlette.types import Receive, Send


@dataclass(frozen=True, kw_only=True)
class Stream:
    """`close` is called once the answer has ended, in whatever way, also when no piece was ever asked for."""

    pieces: AsyncIterator[bytes]
    close: Callable[[], None]
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()
    status: int = 200


async def send_pieces(pieces: AsyncIterator[bytes], receive: Receive, send: Send) -> None:
    """Send all of them, after the headers; ends early when the client goes. An error of theirs is raised: the connection is then
    closed in the middle, so that the answer does not seem complete."""
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
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_all(pieces: AsyncIterator[bytes], send: Send) -> None:
    async for piece in pieces:  # `send` waits while the client does not take what it was sent
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
