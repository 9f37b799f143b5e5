"""HTTP connections with limits: uvicorn's protocol limits neither the time for a request to arrive nor the size of its headers.

Headers must be complete within a time and a size. A body may take any time as long as it makes progress, and so may the answer
as long as the peer reads. The number of connections per peer is limited; those of agents do not count, since hundreds of nodes
may share an address. Clients and proxies stay far below all limits. Websockets have the last two limits too (`websockets.py`).
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from typing import Any, cast
from weakref import WeakKeyDictionary

import msgspec
from uvicorn.server import ServerState

from brickyard.api.edge.whole import WholeAnswers

HEAD_S = 10.0  # from a request's first byte, or from the connection, to the end of the headers
HEAD_BYTES = 64 << 10
BODY_S = 30.0  # a body must deliver BODY_BYTES in each such period; periods in which we do not read do not count
BODY_BYTES = 4 << 10
WRITE_S = 60.0  # a client must read some of the pending answer in each such period
MOST_OF_PEER = 2048
UNCOUNT = "brickyard.uncount"  # in a request's scope: call it once the peer is known to be an agent
_REASONS = {408: "Request Timeout", 431: "Request Header Fields Too Large", 503: "Service Unavailable"}

_held: WeakKeyDictionary[ServerState, Counter[str]] = WeakKeyDictionary()  # connections of each peer


def most_of_peer() -> int:
    """Connections of one peer: half of this process's descriptors, so that one peer cannot use them all."""
    return min(MOST_OF_PEER, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


class Bounded(asyncio.Protocol):
    """What all connections have: a peer, which may hold only so many, and a limit for how long it may take nothing of what is
    sent. Goes before uvicorn's protocol."""

    peer: str | None = None  # as long as the connection counts
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    server_state: ServerState
    _write_timer: asyncio.TimerHandle | None = None
    _unsent = 0

    def count(self, peer: str) -> int:
        """Counts this connection as one of the peer's. Returns how many it has."""
        self.peer = peer
        held = _held.setdefault(self.server_state, Counter())
        held[peer] += 1
        return held[peer]

    def uncount(self) -> None:
        """From now on the connection does not count."""
        if self.peer is not None:
            held = _held[self.server_state]
            held[self.peer] -= 1
            if not held[self.peer]:
                del held[self.peer]
            self.peer = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.uncount()
        self._set_write_timer(None)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_taker()

    def resume_writing(self) -> None:
        self._set_write_timer(None)
        super().resume_writing()

    def _expect_taker(self) -> None:
        self._unsent = self.transport.get_write_buffer_size()
        self._set_write_timer(WRITE_S)

    def _set_write_timer(self, seconds: float | None) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
        self._write_timer = None if seconds is None else self.loop.call_later(seconds, self._not_taken)

    def _not_taken(self) -> None:
        if self.transport.get_write_buffer_size() < self._unsent:
            self._expect_taker()
        else:
            self.transport.abort()  # a normal close would still wait for this client


class BoundedHttp(Bounded, WholeAnswers):
    """One connection."""

    _timer: asyncio.TimerHandle | None = None
    _limit_s: float | None = None  # for what the request is waiting for now
    _moved = False  # the limit has changed: set the timer, once all that has arrived is parsed
    _upgraded = False  # the connection has become a websocket
    _in_head = True
    _head_bytes = 0  # of this request, as parsed
    _raw_bytes = 0  # received since the headers began, or since the last check of the body
    _too_large = False
    _has_host = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's own
        super().connection_made(transport)
        if self.count(self.client[0] if self.client else "") > most_of_peer():
            self._refuse(503, "TEMPORARILY_UNAVAILABLE", "This peer holds too many connections. Close some, and try again.")
        else:
            self._set_timer(HEAD_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_timer(None)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        self._upgraded = True
        self._set_timer(None)
        self._set_write_timer(None)
        if self.cycle is None or self.cycle.response_complete:
            self.uncount()  # the websocket counts
            super().handle_websocket_upgrade()
        else:  # pipelined behind a request whose answer is still being sent on this connection
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._raw_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing() or self._upgraded:
            return
        if self._in_head and self._raw_bytes > HEAD_BYTES:
            self._refuse_head()
        elif self._moved:  # only now: most requests arrive as a whole and need no timer
            self._moved = False
            self._set_timer(self._limit_s)
        elif self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._in_head, self._raw_bytes = True, 0
            self._set_timer(HEAD_S)  # bytes that do not begin a request must not keep the connection open

    def on_message_begin(self) -> None:
        super().on_message_begin()
        cast("dict[str, Any]", self.scope)[UNCOUNT] = self.uncount
        self._head_bytes = 0
        self._has_host = False
        self._in_head = True
        self._expect(HEAD_S)

    def on_url(self, url: bytes) -> None:
        self._head_bytes += len(url)
        if self._head_bytes > HEAD_BYTES:
            self._overflow()
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        # Instead of uvicorn's own, and with what that does: there are many headers.
        name = name.lower()
        self._head_bytes += len(name) + len(value) + 4  # plus the separators
        if self._head_bytes > HEAD_BYTES:
            self._overflow()
        if name == b"host":
            if self._has_host:
                raise ValueError("two Host headers")  # a proxy before us may have used the other one
            self._has_host = True
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()
        self._expect(BODY_S)

    def on_message_complete(self) -> None:
        self._expect(None)
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if self._too_large:
            self._refuse_head()
        else:
            super().send_400_response(msg)

    def _overflow(self) -> None:
        self._too_large = True
        raise ValueError("the headers are too large")  # the parser ends, and `send_400_response` follows

    def _expect(self, seconds: float | None) -> None:
        """The next part of the request begins; it has so long."""
        self._raw_bytes = 0
        self._limit_s, self._moved = seconds, True

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._late)

    def _late(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        if self.flow.read_paused:  # the delay is ours
            self._set_timer(HEAD_S if self._in_head else BODY_S)
        elif self._in_head:
            self._refuse(408, "REQUEST_TIMEOUT", f"The request's headers were not complete after {HEAD_S:g} s.")
        elif self._raw_bytes >= BODY_BYTES:
            self._raw_bytes = 0
            self._set_timer(BODY_S)
        else:
            self.transport.close()  # the handler then learns that its client has disconnected

    def _refuse_head(self) -> None:
        self._refuse(431, "MAX_REQUEST_SIZE_EXCEEDED", f"The request's headers have more than {HEAD_BYTES >> 10} KiB.")

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answers without a request and closes; only if no answer of the application is in progress."""
        if self.cycle is None or self.cycle.response_complete:
            body = msgspec.json.encode({"error_code": code, "message": message})
            head = f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            self.transport.write(head.encode() + b"retry-after: 1\r\nconnection: close\r\n\r\n" + body)
        self.transport.close()
