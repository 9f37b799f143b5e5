"""One gRPC call, passed on as bytes: nothing is changed, and at most one message is held in each direction.

A message is read from one side only when the other has taken the last one, so a client that reads slowly, or never, makes its
driver wait (HTTP/2 flow control) and costs this process a window and a message.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import grpc.aio

Metadata = Sequence[tuple[str, str | bytes]]
Saw = Callable[[bytes], None]  # is shown a request on its way; must not raise
_PREFIX = "/spark.connect.SparkConnectService/"
# Calls whose request is one message need no second conversation for it; whatever is not named here is relayed as streams.
ONE_TO_ONE = frozenset(
    _PREFIX + name
    for name in (
        "AnalyzePlan", "Config", "ArtifactStatus", "Interrupt", "ReleaseExecute", "ReleaseSession", "FetchErrorDetails",
        "CloneSession",
    )
)  # fmt: skip
_ONE_TO_MANY = frozenset(_PREFIX + name for name in ("ExecutePlan", "ReattachExecute"))


class ClientGone(Exception):
    """The client has left in the middle of the call."""


class Relay:
    """Passes calls on to one driver over one connection."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
        self.active = 0  # calls that run now

    async def call(self, method: str, context: Any, metadata: Metadata, saw: Saw) -> bytes:
        """Relay a call of `ONE_TO_ONE`; returns its answer. Raises as `stream` does."""
        self.active += 1
        try:
            request = await context.read()
            if request is grpc.aio.EOF:
                raise ClientGone
            saw(request)
            call: Any = self._channel.unary_unary(method)(request, metadata=metadata, timeout=context.time_remaining())
            del request
            answer: bytes = await call
            return answer
        finally:
            self.active -= 1

    async def stream(self, method: str, context: Any, metadata: Metadata, saw: Saw) -> None:
        """Relay any other call. `saw` is shown a request that is one message. Raises ClientGone, and grpc.aio.AioRpcError with
        the driver's own status when that is not OK."""
        self.active += 1
        try:
            if method in _ONE_TO_MANY:
                await self._one_to_many(method, context, metadata, saw)
            else:
                await self._streams(method, context, metadata)
        finally:
            self.active -= 1

    async def close(self) -> None:
        """Give back the connection; calls that run are cancelled."""
        await self._channel.close()

    async def _one_to_many(self, method: str, context: Any, metadata: Metadata, saw: Saw) -> None:
        request = await context.read()
        if request is grpc.aio.EOF:
            return
        saw(request)
        call: Any = self._channel.unary_stream(method)(request, metadata=metadata, timeout=context.time_remaining())
        del request
        try:
            await _download(call, context)
        finally:
            call.cancel()  # of one that is over: nothing

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
        except Exception as error:  # gRPC has no public name for it
            raise ClientGone from error


async def _upload(call: Any, context: Any) -> None:
    # A driver that has ended the call does not take the rest; what it said about it is read by the other half.
    with contextlib.suppress(grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
        while (message := await context.read()) is not grpc.aio.EOF:
            await call.write(message)
        await call.done_writing()
