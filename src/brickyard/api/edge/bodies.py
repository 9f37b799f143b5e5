"""Bodies of requests: read whole, or as they arrive, and never more of them than a call takes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.types import Message, Receive, Scope

from brickyard.api.edge.registry import Answer
from brickyard.domain.errors import ApiError, RequestTooLarge

DRAIN_LIMIT = 64 * 1024 * 1024  # bytes of a refused body that are read and dropped, so that the client gets to the reason


class Disconnected(Exception):
    """The client has disconnected, so no answer is possible."""


def has_body(scope: Scope) -> bool:
    """Whether the request announces a body. Those without one, nearly all that only read, need not wait for it."""
    return any(
        key == b"transfer-encoding" or (key == b"content-length" and value.strip() != b"0") for key, value in scope["headers"]
    )


async def read(scope: Scope, receive: Receive, limit: int) -> bytes:
    """Reads the body. Raises RequestTooLarge; keeps at most `limit` bytes in memory."""
    declared = 0
    for key, value in scope["headers"]:
        if key == b"content-length" and value.isdigit():
            declared = int(value)
    message = await _next(receive)
    if declared <= limit and not message.get("more_body"):
        body: bytes = message.get("body", b"")
        if len(body) <= limit:
            return body
    chunks: list[bytes] = []
    size = 0
    while True:
        chunk = message.get("body", b"")
        size += len(chunk)
        if size <= limit and declared <= limit:
            chunks.append(chunk)
        elif size > DRAIN_LIMIT or not message.get("more_body"):
            # The rest was read and dropped: a client whose upload fails half-way never reads the answer, and retries.
            raise _too_large(limit)
        else:
            chunks.clear()
        if not message.get("more_body"):
            return b"".join(chunks)
        message = await _next(receive)


async def drained(receive: Receive, work: Callable[[AsyncIterator[bytes]], Awaitable[Answer]]) -> Answer:
    """Does work with the body as it arrives. If that is refused, reads the rest as `read` does: a client that cannot finish
    sending never reads the answer."""
    arriving = chunks(receive)
    try:
        return await work(arriving)
    except ApiError:
        size = 0
        async for chunk in arriving:
            size += len(chunk)
            if size > DRAIN_LIMIT:
                break
        raise


async def chunks(receive: Receive) -> AsyncIterator[bytes]:
    """The body as it arrives."""
    more = True
    while more:
        message = await _next(receive)
        more = message.get("more_body", False)
        yield message.get("body", b"")


async def joined(arriving: AsyncIterator[bytes], limit: int) -> bytes:
    """A body that arrives, as a whole. Raises RequestTooLarge."""
    found = bytearray()
    async for chunk in arriving:
        found += chunk
        if len(found) > limit:
            raise _too_large(limit)
    return bytes(found)


async def _next(receive: Receive) -> Message:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Disconnected
    return message


def _too_large(limit: int) -> RequestTooLarge:
    return RequestTooLarge(f"The request body is larger than the {limit} bytes that this call takes.")
