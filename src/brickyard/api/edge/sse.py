"""Server-sent events, as browsers' EventSource reads them (HTML standard, section 9.2)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from brickyard.api.edge.streaming import Source, Stream

CONTENT_TYPE = "text/event-stream"
LAST_EVENT_ID = "last-event-id"  # the header in which a reconnecting client names the last event it saw
KEEP_ALIVE = b":\n\n"  # a comment: keeps proxies from considering the connection dead
RETRY_MS = 1_000  # a client reconnects after this long
# Proxies must not buffer the stream; nginx buffers answers unless told not to.
_HEADERS = (("cache-control", "no-store"), ("x-accel-buffering", "no"))


class ServerEvent(NamedTuple):
    """`id` and `kind` must each be a single line."""

    id: str
    kind: str
    data: str


def event_stream(events: AsyncIterator[ServerEvent | None], *, source: Source) -> Stream:
    """Streams the events as an answer. None sends a keep-alive."""
    return Stream(pieces=_encoded(events), source=source, content_type=CONTENT_TYPE, headers=_HEADERS, endless=True)


def encode(event: ServerEvent) -> bytes:
    """Encodes an event for the wire."""
    data = "".join(f"data: {line}\n" for line in event.data.split("\n"))
    return f"id: {event.id}\nevent: {event.kind}\n{data}\n".encode()


async def _encoded(events: AsyncIterator[ServerEvent | None]) -> AsyncIterator[bytes]:
    yield b"retry: %d\n\n" % RETRY_MS
    async for event in events:
        yield KEEP_ALIVE if event is None else encode(event)
