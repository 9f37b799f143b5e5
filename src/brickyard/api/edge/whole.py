"""Sends a complete answer in one write.

uvicorn takes an answer in two messages, checks each header by two patterns, and keeps a timer for each request. For the small
answers that clients poll for, that costs as much as making them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

Whole = Callable[[int, bytes, bytes], Awaitable[None]]
WHOLE = "brickyard.whole"  # in a request's scope: `send_whole` for it
_TOGETHER = 64 << 10  # a larger body is not copied behind its headers


class _Defaults:
    """The headers of every answer (date, server) as bytes. uvicorn makes a new list of them every second."""

    def __init__(self) -> None:
        self._of: list[tuple[bytes, bytes]] = []
        self._joined = b""

    def joined(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        if headers is not self._of:
            self._of, self._joined = headers, b"".join(b"%s: %s\r\n" % each for each in headers)
        return self._joined


_defaults = _Defaults()


async def send_whole(cycle: RequestResponseCycle, status: int, head: bytes, body: bytes) -> None:
    """Answers. `head`: lines of valid headers, each with its line end; one is the content length. As uvicorn's `send` of both
    messages, but for HEAD and for a status without a body."""
    if cycle.flow.write_paused and not cycle.disconnected:
        await cycle.flow.drain()
    if cycle.disconnected:
        return
    cycle.response_started = True
    cycle.waiting_for_100_continue = False
    end = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
    lines = (STATUS_LINE[status], _defaults.joined(cycle.default_headers), head, end)
    if len(body) <= _TOGETHER:
        cycle.transport.write(b"".join((*lines, body)))
    else:
        cycle.transport.write(b"".join(lines))
        cycle.transport.write(body)
    cycle.response_complete = True
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()


class WholeAnswers(HttpToolsProtocol):
    """Goes before uvicorn's protocol, whose timer for idle connections it replaces by one that is set once in a while."""

    _idle_since_s: float | None = None  # on the loop's clock; None while there is a request

    def on_headers_complete(self) -> None:
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            scope: Any = self.scope
            scope[WHOLE] = partial(send_whole, self.cycle)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._idle_since_s = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._look_again(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._end_timer()

    def handle_websocket_upgrade(self) -> None:
        self._end_timer()
        super().handle_websocket_upgrade()

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        if self._idle_since_s is None:
            return  # the next answer sets the timer
        left_s = self._idle_since_s + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:
            self._look_again(left_s)
        else:
            super().timeout_keep_alive_handler()

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since_s = None

    def _look_again(self, after_s: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(after_s, self.timeout_keep_alive_handler)

    def _end_timer(self) -> None:
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None
