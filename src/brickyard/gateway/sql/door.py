"""The HTTP addresses of SQL for clients, as Databricks names them: `/sql/protocolv1/o/WORKSPACE/CLUSTER` leads to a cluster, and
`/sql/1.0/warehouses/ID` to the cluster of a warehouse, which `Warehouses` knows."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Coroutine, Iterable
from typing import Any

import msgspec
import structlog
from starlette.types import Receive, Scope, Send

from brickyard.api.edge import bodies
from brickyard.api.edge.authentication import Authenticator, address_of, bearer_of
from brickyard.api.edge.hosts import Hosts
from brickyard.domain.caller import Caller
from brickyard.domain.delivery import Delivery
from brickyard.domain.errors import ApiError, MalformedRequest, ResourceDoesNotExist, TemporarilyUnavailable, Unauthenticated
from brickyard.domain.printable import printable
from brickyard.domain.tracing import Span, Tracing
from brickyard.domain.warehouses import TaskCallers, Warehouses
from brickyard.features.statements.linked import LinkedResults
from brickyard.gateway.connect import ConnectGateway, status_error
from brickyard.gateway.sql import thrift
from brickyard.gateway.sql.client import Client
from brickyard.gateway.sql.driver import Driver, Renewed
from brickyard.gateway.sql.failures import SqlFailed
from brickyard.gateway.sql.observing import StatementObserver
from brickyard.gateway.sql.service import SqlService
from brickyard.gateway.tracing import sql_span

MAX_BODY = 16 << 20  # bytes: statements are text
MAX_APPLICATION = 200  # characters
NO_TOKEN = "No token was sent. Set the client's access token to a token of the workspace."  # noqa: S105 - none
Answer = tuple[int, list[tuple[bytes, bytes]], bytes]
"""Status, headers and body."""
_ID = "[0-9A-Za-z_-]{1,100}"
_CLUSTER = re.compile(rf"/sql/protocolv1/o/{_ID}/(?P<cluster>{_ID})/?")
_WAREHOUSE = re.compile(rf"/sql/(?:1\.0/(?:warehouses|endpoints)|protocolv1/endpoints)/(?P<warehouse>{_ID})/?")

log = structlog.get_logger(__name__)


class SqlDoor:
    """The ASGI application of `SqlEntrance`."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        gateway: ConnectGateway,
        warehouses: Warehouses,
        observer: StatementObserver,
        tasks: TaskCallers,
        hosts: Hosts | None = None,
        results: LinkedResults | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        """`tasks`: callers with tokens of tasks. `hosts`, `results`, `tracing`: as in `SqlEntrance`."""
        self._authenticator = authenticator
        self._warehouses = warehouses
        self._tasks = tasks
        self.driver = Driver(gateway)
        self._hosts = hosts
        self._tracing = tracing
        self.service = SqlService(self.driver, observer, results)

    async def close(self) -> None:
        """Stops serving. What runs goes on in Spark for some minutes."""
        await self.service.operations.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        delivery = Delivery()
        try:
            with sql_span(self._tracing, _route(scope["path"]), scope) as span:
                status, headers, body = await self._answered(scope, receive, delivery, span)
        except bodies.Disconnected:
            delivery.lost()
            return
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await asyncio.sleep(0)
            was_gone = gone.done()  # before the answer was written: afterwards every connection ends
            await send({"type": "http.response.body", "body": body})
        finally:
            gone.cancel()
        if was_gone:
            delivery.lost()
        else:
            await delivery.arrived()

    async def _answered(self, scope: Scope, receive: Receive, delivery: Delivery, span: Span) -> Answer:
        """The answer, also of a call that is refused. Raises Disconnected."""
        try:
            answer = await self._answer(scope, receive, delivery, span)
        except ApiError as error:
            span.set({"brickyard.error_code": error.error_code})
            answer = _refusal(error)
        span.set({"http.response.status_code": answer[0]})
        if answer[0] >= 500:
            span.failed(str(answer[0]))
        return answer

    async def _answer(self, scope: Scope, receive: Receive, delivery: Delivery, span: Span) -> Answer:
        await self._authenticator.admit(self._authenticator.source(scope))
        address = address_of(scope)
        caller, renewed = await self._caller(scope, address)
        cluster_id, warehouse_id = await self._addressed(caller, scope["path"])
        span.set({"user.id": caller.user_id, "brickyard.cluster.id": cluster_id, "brickyard.warehouse.id": warehouse_id})
        if scope["method"] != "POST":
            raise MalformedRequest("SQL clients send POST.")
        authorization = f"Bearer {bearer_of(scope['headers'])}"
        client = Client(
            caller,
            cluster_id,
            authorization,
            address,
            _application(scope["headers"]),
            delivery,
            warehouse_id=warehouse_id,
            renewed=renewed,
            base_url="" if renewed is not None else await self._shown_url(scope),
        )
        try:
            call = thrift.decoded(await bodies.read(scope, receive, MAX_BODY))
        except thrift.NotThrift as error:
            raise MalformedRequest(str(error)) from error
        if self.service.handler(call.name) is not None:
            span.set({"rpc.method": call.name})
        return 200, [(b"content-type", b"application/x-thrift")], await self._while_there(receive, self._call(client, call))

    async def _shown_url(self, scope: Scope) -> str:
        """Where links lead to; "" if that is unknown. A task gets none: only its own way may lead to a server."""
        if self._hosts is not None:
            with contextlib.suppress(MalformedRequest):
                return await self._hosts.shown_url(scope, vouched=True)
        return ""

    async def _caller(self, scope: Scope, address: str) -> tuple[Caller, Renewed | None]:
        """Who calls. A task's token counts here alone, at its own warehouse."""
        warehouse, bearer = _WAREHOUSE.fullmatch(scope["path"]), bearer_of(scope["headers"])
        found = await self._tasks.caller(bearer, warehouse["warehouse"]) if warehouse is not None else None
        if found is None:
            return await self._authenticator.of_headers(scope["headers"], address=address, missing=NO_TOKEN), None

        async def renewed(caller: Caller = found) -> Caller:
            if (again := await self._tasks.again(caller)) is None:
                raise Unauthenticated("The task with this token is over.")
            return again

        return found, renewed

    async def _addressed(self, caller: Caller, path: str) -> tuple[str, str]:
        """The ids of the cluster and of the warehouse that a path names; the latter may be ""."""
        if (match := _CLUSTER.fullmatch(path)) is not None:
            return match["cluster"], ""
        if (match := _WAREHOUSE.fullmatch(path)) is not None:
            if (cluster_id := await self._warehouses.cluster_of(caller, match["warehouse"])) is None:
                raise ResourceDoesNotExist(f"SQL warehouse {match['warehouse']} does not exist.")
            return cluster_id, match["warehouse"]
        raise ResourceDoesNotExist(
            "SQL clients use the path /sql/protocolv1/o/WORKSPACE_ID/CLUSTER_ID or /sql/1.0/warehouses/ID. See docs/sql.md."
        )

    async def _while_there(self, receive: Receive, work: Coroutine[Any, Any, bytes]) -> bytes:
        """The result of a call, unless its client disconnects before. Raises Disconnected."""
        call, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({call, gone}, return_when=asyncio.FIRST_COMPLETED)
            if call.done():
                return call.result()
            raise bodies.Disconnected
        finally:
            gone.cancel()
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

    async def _call(self, client: Client, call: thrift.Call) -> bytes:
        handler = self.service.handler(call.name)
        if handler is None:
            return thrift.refused(call, f"{call.name} is not served.")
        try:
            return thrift.encoded(call, await handler(client, call.request))
        except SqlFailed as error:
            raise status_error(error.code, error.text) from error
        except (AttributeError, ValueError, TypeError) as error:
            if isinstance(error, AttributeError) and "NoneType" not in str(error):
                raise
            raise MalformedRequest(f"{call.name} has no valid handle.") from error


async def _gone(receive: Receive) -> None:
    """Returns once the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _application(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """What the client calls itself."""
    found = next((value for key, value in headers if key == b"user-agent"), b"")
    return printable(found.decode("latin-1"))[:MAX_APPLICATION]


def _route(path: str) -> str:
    """The path without ids."""
    if _WAREHOUSE.fullmatch(path) is not None:
        return "/sql/1.0/warehouses/{id}"
    return "/sql/protocolv1/o/{workspace_id}/{cluster_id}" if _CLUSTER.fullmatch(path) is not None else "/sql"


def _refusal(error: ApiError) -> Answer:
    body = msgspec.json.encode({"error_code": error.error_code, "message": error.message})
    text = error.message.replace("\n", " ").encode("ascii", "replace")
    headers = [
        (b"content-type", b"application/json"),
        (b"x-thriftserver-error-message", text),  # what Databricks' clients show
        (b"x-databricks-reason-phrase", text),
    ]
    if isinstance(error, TemporarilyUnavailable):
        headers.append((b"retry-after", b"1"))
    return error.http_status, headers, body
