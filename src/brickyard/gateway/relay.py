"""Relays one gRPC call as raw bytes, unchanged, holding at most one message in each direction.

A message is read from one side only once the other has taken the previous one. So a client that reads slowly, or never, makes its
driver wait (HTTP/2 flow control) and costs this process one window and one message.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
import grpc.aio

Metadata = Sequence[tuple[str, str | bytes]]
Saw = Callable[[bytes], Awaitable[None]]  # receives each request before it is relayed; if it raises, it is not
_PREFIX = "/spark.connect.SparkConnectService/"
# Calls with a single request message, which need no stream for it; all calls not listed here are relayed as streams.
ONE_TO_ONE = frozenset(
    _PREFIX + name
    for name in (
        "AnalyzePlan", "Config", "ArtifactStatus", "Interrupt", "ReleaseExecute", "ReleaseSession", "FetchErrorDetails",
        "CloneSession",
    )
)  # fmt: skip
_ONE_TO_MANY = frozenset(_PREFIX + name for name in ("ExecutePlan", "ReattachExecute"))


class ClientGone(Exception):
    """The client disconnected during the call."""


class Relay:
    """Relays calls to one driver over one connection."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
        self.active = 0  # calls in progress

    async def call(self, method: str, context: Any, metadata: Metadata, saw: Saw) -> bytes:
        """Relays a call of `ONE_TO_ONE` and returns its answer. Raises the same errors as `stream`."""
        self.active += 1
        try:
            request = await context.read()
            if request is grpc.aio.EOF:
                raise ClientGone
            await saw(request)
            call: Any = self._channel.unary_unary(method)(request, metadata=metadata, timeout=context.time_remaining())
            del request
            answer: bytes = await call
            return answer
        finally:
            self.active -= 1

    async def send(self, method: str, request: bytes, metadata: Metadata, *, timeout_s: float) -> None:
        """Makes a call of `ONE_TO_ONE` of our own. Raises grpc.aio.AioRpcError."""
        self.active += 1
        try:
            call: Any = self._channel.unary_unary(method)
            await call(request, metadata=metadata, timeout=timeout_s)
        finally:
            self.active -= 1

    async def stream(self, method: str, context: Any, metadata: Metadata, saw: Saw) -> None:
        """Relays any other call. `saw` receives the request if it is a single message. Raises ClientGone, and
        grpc.aio.AioRpcError with the driver's status if that is not OK."""
        self.active += 1
        try:
            if method in _ONE_TO_MANY:
                await self._one_to_many(method, context, metadata, saw)
            else:
                await self._streams(method, context, metadata)
        finally:
            self.active -= 1

    async def close(self) -> None:
        """Closes the connection and cancels calls in progress."""
        await self._channel.close()

    async def _one_to_many(self, method: str, context: Any, metadata: Metadata, saw: Saw) -> None:
        request = await context.read()
        if request is grpc.aio.EOF:
            return
        await saw(request)
        call: Any = self._channel.unary_stream(method)(request, metadata=metadata, timeout=context.time_remaining())
        del request
        try:
            await _download(call, context)
        finally:
            call.cancel()  # no effect if it is over

    async def _streams(self, method: str, context: Any, metadata: Metadata) -> None:
        call: Any = self._channel.stream_stream(method)(metadata=metadata, timeout=context.time_remaining())
        upload = asyncio.create_task(_upload(call, context))
        try:
            await _download(call, context)
        finally:
            upload.cancel()
            call.cancel()


async def _download(call: Any, context: Any) -> None:
    while (message := await call.read()) is not grpc.aio.EOF:
        try:
            await context.write(message)
        except Exception as error:  # gRPC has no public exception class for this
            raise ClientGone from error


async def _upload(call: Any, context: Any) -> None:
    # A driver that has ended the call does not take the rest; the other half reads its status.
    with contextlib.suppress(grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
        while (message := await context.read()) is not grpc.aio.EOF:
            await call.write(message)
        await call.done_writing()
