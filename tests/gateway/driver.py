"""A Spark Connect server that is a fake: it echoes, streams and fails by the method's name, and asks for its token."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import grpc.aio

SERVICE = "/spark.connect.SparkConnectService/"
BLOCK = b"x" * (1 << 20)
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)]


class FakeDriver:
    """One server, from `start` to `stop`."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.interrupts: list[bytes] = []
        self.sent = 0  # blocks that a stream has given away
        self.cancelled = asyncio.Event()
        self.port = 0
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        self._server = grpc.aio.server(handlers=[_Handler(self)], options=UNLIMITED)
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)

    async def serve(self, method: str, context: Any) -> None:
        metadata = dict(context.invocation_metadata())
        self.seen.append((method, metadata))
        if metadata.get("authorization") != f"Bearer {self.token}":
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "Invalid authentication token")
        request = await context.read()
        match method.rpartition("/")[2]:
            case "Config" | "ReleaseSession":
                await context.write(request)
            case "ExecutePlan":
                await self._blocks(int(request), context)
            case "ReattachExecute":
                await self._blocks(2_000, context)
            case "Interrupt":
                self.interrupts.append(request)
                await context.write(b"")
            case "AddArtifacts":
                size = 0
                while request is not grpc.aio.EOF:
                    size += len(request)
                    request = await context.read()
                await context.write(b"%d" % size)
            case "AnalyzePlan":
                await context.abort(grpc.StatusCode.INTERNAL, "[TABLE_NOT_FOUND]", (("grpc-status-details-bin", b"\x01\x02"),))
            case _:
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, "")

    async def _blocks(self, count: int, context: Any) -> None:
        try:
            for _ in range(count):
                await context.write(BLOCK)
                self.sent += 1
        except BaseException:  # cancelled, or nobody takes it: which of them is a race
            self.cancelled.set()
            raise


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, driver: FakeDriver) -> None:
        self._driver = driver

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method

        async def serve(_requests: Any, context: Any) -> None:
            await self._driver.serve(method, context)

        return grpc.stream_stream_rpc_method_handler(serve)
