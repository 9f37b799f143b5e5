"""Calls to a driver's Spark Connect, made here instead of by a client, with all that the gateway checks and records."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import grpc

from brickyard.domain.caller import Caller
from brickyard.gateway.connect import CLUSTER_ID, ConnectGateway
from brickyard.gateway.requests import INTERRUPT, RELEASE
from brickyard.gateway.sql.failures import SqlFailed, of_status
from brickyard.gateway.sql.protocol import MESSAGES, message
from brickyard.plan.attach import Client

_SERVICE = "/spark.connect.SparkConnectService/"
_EXECUTE, _REATTACH, _RELEASE = (_SERVICE + name for name in ("ExecutePlan", "ReattachExecute", "ReleaseExecute"))
_CONFIG = _SERVICE + "Config"
_INTERRUPT_OPERATION = 3  # InterruptType
CLIENT_TYPE = "brickyard-sql"
_UNKNOWN_OPERATION = "INVALID_HANDLE.OPERATION_NOT_FOUND"
REATTACHES = 3  # in a row, without a message between them


Renewed = Callable[[], Awaitable[Caller]]


class Login:
    """The credentials of a session's calls: its client may get new ones while a statement runs."""

    def __init__(self, authorization: str, address: str, *, caller: Renewed | None = None) -> None:
        """`authorization` is the header as it was sent, `address` the client's. `caller`: who it is, in place of a header; raises
        Unauthenticated once they may call no more."""
        self.authorization = authorization
        self.caller = caller
        self.address = address


class Target(NamedTuple):
    """Whose session on which cluster. Spark tells sessions apart by user and id. `incarnation` is Spark's own id of the session:
    if it is given, Spark refuses the call once the session is another one."""

    cluster_id: str
    session_id: str
    user: str
    login: Login
    incarnation: str = ""

    @property
    def fields(self) -> dict[str, Any]:
        """What every request begins with."""
        context = message("UserContext", user_id=self.user, user_name=self.user)
        observed = self.incarnation or None
        return {
            "session_id": self.session_id,
            "user_context": context,
            "client_type": CLIENT_TYPE,
            "client_observed_server_side_session_id": observed,
        }


class Query(NamedTuple):
    """A statement with the values of its parameters (Expression) by name or by position, and how many rows are wanted."""

    text: str
    named: Mapping[str, Any] = {}
    positional: tuple[Any, ...] = ()
    row_limit: int | None = None

    @property
    def plan(self) -> Any:
        """Spark Connect's Plan."""
        fields: dict[str, Any] = {"query": self.text}
        if self.named:
            fields["named_arguments"] = self.named
        if self.positional:
            fields["pos_arguments"] = self.positional
        root = message("Relation", sql=message("Sql", **fields))
        if self.row_limit is not None:
            root = message("Relation", limit=message("Limit", input=root, limit=self.row_limit))
        return message("Plan", root=root)


class Chunk(NamedTuple):
    """A part of a result: an Arrow stream with that many rows. `response_id` is its place in Spark's answer."""

    rows: int
    stream: bytes
    response_id: str = ""


class Part(NamedTuple):
    """What a fetch returns: chunks, the number of the first row, and whether more follow."""

    chunks: list[Chunk]
    start: int
    more: bool


class Calls(Protocol):
    """What `ConnectGateway` offers."""

    async def serve(self, method: str, context: Any, clients: Any) -> bytes:
        """Make a call; answers of more than one message are written to the context."""
        ...


class Driver:
    """One per server. Methods raise SqlFailed."""

    def __init__(self, gateway: ConnectGateway) -> None:
        self._gateway: Calls = gateway

    async def execute(self, target: Target, operation_id: str, query: Query) -> AsyncIterator[Chunk]:
        """The result of a statement, as it comes: at least one chunk. A lost connection to the driver is taken up again; the
        statement runs once."""
        request = message(
            "ExecutePlanRequest",
            **target.fields,
            operation_id=operation_id,
            plan=query.plan,
            request_options=[message("RequestOption", reattach_options=message("ReattachOptions", reattachable=True))],
        )
        async for chunk in self._result(target, operation_id, _EXECUTE, request):
            yield chunk

    async def reattach(self, target: Target, operation_id: str, *, again: Query | None = None) -> AsyncIterator[Chunk]:
        """The result, from its beginning, of a statement that another server has begun. Spark refuses this once a part of the
        result was released. `again`: what runs if the driver never had the statement."""
        try:
            async for chunk in self._result(target, operation_id, _REATTACH, _reattach(target, operation_id, "")):
                yield chunk
        except SqlFailed as error:
            if again is None or _UNKNOWN_OPERATION not in error.text:
                raise
            # Race: the other server is not gone but slow, and sends it only now. Spark takes the id once.
            async for chunk in self.execute(target, operation_id, again):
                yield chunk

    async def _result(self, target: Target, operation_id: str, method: str, request: Any) -> AsyncIterator[Chunk]:
        last, lost = "", list[SqlFailed]()
        while True:
            try:
                async for raw in self._stream(target, method, request):
                    response = MESSAGES["ExecutePlanResponse"].FromString(raw)
                    last, lost = response.response_id, []
                    if response.HasField("result_complete"):
                        return
                    if response.HasField("arrow_batch"):
                        yield Chunk(response.arrow_batch.row_count, response.arrow_batch.data, last)
            except SqlFailed as error:
                if lost and _UNKNOWN_OPERATION in error.text:  # the driver never had the first request
                    raise lost[0] from error
                lost.append(error)
                if error.code is not grpc.StatusCode.UNAVAILABLE or len(lost) > REATTACHES:
                    raise
                await asyncio.sleep(0.1 * len(lost))
            method, request = _REATTACH, _reattach(target, operation_id, last)

    async def run(self, target: Target, statement: str) -> None:
        """Run a statement whose result nobody wants."""
        operation_id = str(uuid.uuid4())
        async for _ in self.execute(target, operation_id, Query(statement)):
            pass
        await self.release(target, operation_id)

    async def configure(self, target: Target, settings: Mapping[str, str]) -> str:
        """Set Spark's settings in a session, which this begins. Returns Spark's own id of the session; "" if it tells none."""
        pairs = [message("KeyValue", key=key, value=value) for key, value in settings.items()]
        response = await self._config(target, set=message("ConfigSet", pairs=pairs))
        return str(response.server_side_session_id)

    async def setting(self, target: Target, key: str) -> str:
        """A setting of a session; "" if it has none."""
        response = await self._config(target, get_option=message("ConfigKeys", keys=[key]))
        return next((pair.value for pair in response.pairs if pair.key == key), "")

    async def unset(self, target: Target, key: str) -> None:
        """Remove a setting of a session."""
        await self._config(target, unset=message("ConfigKeys", keys=[key]))

    async def _config(self, target: Target, **operation: Any) -> Any:
        request = message("ConfigRequest", **target.fields, operation=message("ConfigOperation", **operation))
        return MESSAGES["ConfigResponse"].FromString(await self._call(target, _CONFIG, request))

    async def release(self, target: Target, operation_id: str, *, until: str = "") -> None:
        """Drop what the driver keeps of an operation, up to and including that response; "": all. Fails silently: Spark does so
        itself after some minutes."""
        which = {"release_until": message("ReleaseUntil", response_id=until)} if until else {"release_all": message("ReleaseAll")}
        request = message("ReleaseExecuteRequest", **target.fields, operation_id=operation_id, **which)
        with suppress(SqlFailed):
            await self._call(target, _RELEASE, request)

    async def interrupt(self, target: Target, operation_id: str) -> bool:
        """End an operation and its Spark jobs. Returns whether it ran."""
        request = message("InterruptRequest", **target.fields, interrupt_type=_INTERRUPT_OPERATION, operation_id=operation_id)
        return bool(MESSAGES["InterruptResponse"].FromString(await self._call(target, INTERRUPT, request)).interrupted_ids)

    async def end_session(self, target: Target) -> None:
        """End a session and what runs in it."""
        await self._call(target, RELEASE, message("ReleaseSessionRequest", **target._replace(incarnation="").fields))

    async def _call(self, target: Target, method: str, request: Any) -> bytes:
        return await self._gateway.serve(method, _Context(target, request.SerializeToString()), _Here(target.login))

    async def _stream(self, target: Target, method: str, request: Any) -> AsyncIterator[bytes]:
        """The messages of an answer, of which one waits at most: a slow reader makes the driver wait."""
        context = _Context(target, request.SerializeToString())
        serving = asyncio.ensure_future(self._gateway.serve(method, context, _Here(target.login)))
        serving.add_done_callback(lambda _: context.over())
        try:
            while (raw := await context.next()) is not None:
                yield raw
            await serving
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


def _reattach(target: Target, operation_id: str, last: str) -> Any:
    return message("ReattachExecuteRequest", **target.fields, operation_id=operation_id, last_response_id=last or None)


class _Here:
    """Whose calls these are, for the gateway."""

    kind = Client.SQL

    def __init__(self, login: Login) -> None:
        self._login = login

    def address(self, _peer: str) -> str:
        return self._login.address

    def known(self, _peer: str) -> None:
        pass


class _Context:
    """What gRPC gives a handler, for a call that did not come through gRPC."""

    def __init__(self, target: Target, request: bytes) -> None:
        self._target = target
        self.caller = target.login.caller
        self._request: bytes | None = request
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        self._over = False

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", self._target.login.authorization), (CLUSTER_ID, self._target.cluster_id))

    def peer(self) -> str:
        return ""

    def time_remaining(self) -> None:
        return None

    async def read(self) -> Any:
        request, self._request = self._request, None
        return grpc.aio.EOF if request is None else request

    async def write(self, raw: bytes) -> None:
        await self._messages.put(raw)

    async def abort(self, code: grpc.StatusCode, details: str, trailing: Any = ()) -> None:
        raise of_status(code, details, trailing)

    def over(self) -> None:
        """Nothing more will be written."""
        self._over = True
        if self._messages.empty():
            self._messages.put_nowait(None)

    async def next(self) -> bytes | None:
        if self._over and self._messages.empty():
            return None
        return await self._messages.get()
