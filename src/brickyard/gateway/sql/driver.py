"""Calls to a driver's Spark Connect, made here instead of by a client, with all that the gateway checks and records."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import grpc

from brickyard.gateway.connect import CLUSTER_ID, ConnectGateway
from brickyard.gateway.requests import INTERRUPT, RELEASE
from brickyard.gateway.sql.protocol import MESSAGES, message

_SERVICE = "/spark.connect.SparkConnectService/"
_EXECUTE, _REATTACH, _RELEASE = (_SERVICE + name for name in ("ExecutePlan", "ReattachExecute", "ReleaseExecute"))
_CONFIG = _SERVICE + "Config"
_INTERRUPT_OPERATION = 3  # InterruptType
CLIENT_TYPE = "brickyard-sql"
_SQLSTATE = re.compile(r"SQLSTATE: ([0-9A-Z]{5})")
_UNKNOWN_OPERATION = "INVALID_HANDLE.OPERATION_NOT_FOUND"
REATTACHES = 3  # in a row, without a message between them


class SqlFailed(Exception):
    """A statement has failed. `sql_state` is "HY000" if Spark says none."""

    def __init__(self, text: str, *, sql_state: str = "", code: grpc.StatusCode = grpc.StatusCode.INTERNAL) -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        match = _SQLSTATE.search(text)
        self.sql_state = sql_state or (match[1] if match else "HY000")

    @property
    def of_the_call(self) -> bool:
        """Whether it is about reaching the cluster, not about the statement."""
        return self.code in _CALLS


_CALLS = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNAVAILABLE,
)


class Target(NamedTuple):
    """Whose session on which cluster. `authorization` is the header as it was sent, `address` the client's."""

    cluster_id: str
    session_id: str
    user: str
    authorization: str
    address: str

    @property
    def fields(self) -> dict[str, Any]:
        """What every request begins with."""
        context = message("UserContext", user_id=self.user, user_name=self.user)
        return {"session_id": self.session_id, "user_context": context, "client_type": CLIENT_TYPE}


class Chunk(NamedTuple):
    """A part of a result: an Arrow stream with that many rows."""

    rows: int
    stream: bytes


class Calls(Protocol):
    """What `ConnectGateway` offers."""

    async def serve(self, method: str, context: Any, clients: Any) -> bytes: ...


class Driver:
    """One per server. Methods raise SqlFailed."""

    def __init__(self, gateway: ConnectGateway) -> None:
        self._gateway: Calls = gateway

    async def execute(
        self, target: Target, operation_id: str, statement: str, args: Mapping[str, Any], positional: list[Any]
    ) -> AsyncIterator[Chunk]:
        """The result of a statement, as it comes: at least one chunk. A lost connection to the driver is taken up again; the
        statement runs once."""
        fields = {name: value for name, value in (("named_arguments", args), ("pos_arguments", positional)) if value}
        request = message(
            "ExecutePlanRequest",
            **target.fields,
            operation_id=operation_id,
            plan=message("Plan", root=message("Relation", sql=message("Sql", query=statement, **fields))),
            request_options=[message("RequestOption", reattach_options=message("ReattachOptions", reattachable=True))],
        )
        method, last, lost = _EXECUTE, "", list[SqlFailed]()
        while True:
            try:
                async for raw in self._stream(target, method, request):
                    response = MESSAGES["ExecutePlanResponse"].FromString(raw)
                    last, lost = response.response_id, []
                    if response.HasField("result_complete"):
                        return
                    if response.HasField("arrow_batch"):
                        yield Chunk(response.arrow_batch.row_count, response.arrow_batch.data)
            except SqlFailed as error:
                if lost and _UNKNOWN_OPERATION in error.text:  # the driver never had the first request
                    raise lost[0] from error
                lost.append(error)
                if error.code is not grpc.StatusCode.UNAVAILABLE or len(lost) > REATTACHES:
                    raise
                await asyncio.sleep(0.1 * len(lost))
            method = _REATTACH
            request = message("ReattachExecuteRequest", **target.fields, operation_id=operation_id, last_response_id=last or None)

    async def run(self, target: Target, statement: str) -> None:
        """Run a statement whose result nobody wants."""
        async for _ in self.execute(target, str(uuid.uuid4()), statement, {}, []):
            pass

    async def configure(self, target: Target, settings: Mapping[str, str]) -> None:
        """Set Spark's settings in a session, which this begins."""
        pairs = [message("KeyValue", key=key, value=value) for key, value in settings.items()]
        operation = message("ConfigOperation", set=message("ConfigSet", pairs=pairs))
        await self._call(target, _CONFIG, message("ConfigRequest", **target.fields, operation=operation))

    async def release(self, target: Target, operation_id: str) -> None:
        """Drop what the driver keeps of an operation. Fails silently: it does so itself after some minutes."""
        request = message("ReleaseExecuteRequest", **target.fields, operation_id=operation_id, release_all=message("ReleaseAll"))
        with suppress(SqlFailed):
            await self._call(target, _RELEASE, request)

    async def interrupt(self, target: Target, operation_id: str) -> None:
        """End an operation and its Spark jobs."""
        request = message("InterruptRequest", **target.fields, interrupt_type=_INTERRUPT_OPERATION, operation_id=operation_id)
        await self._call(target, INTERRUPT, request)

    async def end_session(self, target: Target) -> None:
        """End a session and what runs in it."""
        await self._call(target, RELEASE, message("ReleaseSessionRequest", **target.fields))

    async def _call(self, target: Target, method: str, request: Any) -> bytes:
        return await self._gateway.serve(method, _Context(target, request.SerializeToString()), _Here(target.address))

    async def _stream(self, target: Target, method: str, request: Any) -> AsyncIterator[bytes]:
        """The messages of an answer, of which one waits at most: a slow reader makes the driver wait."""
        context = _Context(target, request.SerializeToString())
        serving = asyncio.ensure_future(self._gateway.serve(method, context, _Here(target.address)))
        serving.add_done_callback(lambda _: context.over())
        try:
            while (raw := await context.next()) is not None:
                yield raw
            await serving
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


class _Here:
    """Whose calls these are, for the gateway."""

    def __init__(self, address: str) -> None:
        self._address = address

    def address(self, _peer: str) -> str:
        return self._address

    def known(self, _peer: str) -> None:
        pass


class _Context:
    """What gRPC gives a handler, for a call that did not come through gRPC."""

    def __init__(self, target: Target, request: bytes) -> None:
        self._metadata = (("authorization", target.authorization), (CLUSTER_ID, target.cluster_id))
        self._request: bytes | None = request
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        self._over = False

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._metadata

    def peer(self) -> str:
        return ""

    def time_remaining(self) -> None:
        return None

    async def read(self) -> Any:
        request, self._request = self._request, None
        return grpc.aio.EOF if request is None else request

    async def write(self, raw: bytes) -> None:
        await self._messages.put(raw)

    async def abort(self, code: grpc.StatusCode, details: str, _trailing: Any = ()) -> None:
        raise SqlFailed(details, code=code)

    def over(self) -> None:
        """Nothing more will be written."""
        self._over = True
        if self._messages.empty():
            self._messages.put_nowait(None)

    async def next(self) -> bytes | None:
        if self._over and self._messages.empty():
            return None
        return await self._messages.get()
