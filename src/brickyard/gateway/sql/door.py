"""The HTTP address of a cluster for SQL clients: `/sql/protocolv1/o/WORKSPACE/CLUSTER`, as Databricks names it."""

from __future__ import annotations

import re

import msgspec
import structlog
from starlette.types import Receive, Scope, Send

from brickyard.api.edge import bodies
from brickyard.api.edge.authentication import Authenticator, address_of, bearer_of
from brickyard.domain.errors import ApiError, MalformedRequest, ResourceDoesNotExist, TemporarilyUnavailable
from brickyard.gateway.connect import ConnectGateway, status_error
from brickyard.gateway.sql import thrift
from brickyard.gateway.sql.driver import Driver, SqlFailed
from brickyard.gateway.sql.service import Client, SqlService

PREFIX = "/sql/"
MAX_BODY = 16 << 20  # bytes: statements are text
NO_TOKEN = "No token was sent. Set the client's access token to a token of the workspace."  # noqa: S105 - none
_PATH = re.compile(r"/sql/protocolv1/o/[0-9A-Za-z_-]{1,100}/(?P<cluster>[0-9A-Za-z_-]{1,100})/?")

log = structlog.get_logger(__name__)


class SqlDoor:
    """The ASGI application mounted at PREFIX."""

    prefix = PREFIX

    def __init__(self, *, authenticator: Authenticator, gateway: ConnectGateway) -> None:
        self._authenticator = authenticator
        self.service = SqlService(Driver(gateway))

    async def close(self) -> None:
        """Ends what runs."""
        await self.service.operations.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            status, headers, body = await self._answer(scope, receive)
        except bodies.Disconnected:
            return
        except ApiError as error:
            status, headers, body = _refusal(error)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        await self._authenticator.admit(self._authenticator.source(scope))
        address = address_of(scope)
        caller = await self._authenticator.of_headers(scope["headers"], address=address, missing=NO_TOKEN)
        match = _PATH.fullmatch(scope["path"])
        if match is None:
            raise ResourceDoesNotExist("SQL clients use the path /sql/protocolv1/o/WORKSPACE_ID/CLUSTER_ID. See docs/sql.md.")
        if scope["method"] != "POST":
            raise MalformedRequest("SQL clients send POST.")
        client = Client(caller.user_name, match["cluster"], f"Bearer {bearer_of(scope['headers'])}", address)
        try:
            call = thrift.decoded(await bodies.read(scope, receive, MAX_BODY))
        except thrift.NotThrift as error:
            raise MalformedRequest(str(error)) from error
        return 200, [(b"content-type", b"application/x-thrift")], await self._call(client, call)

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


def _refusal(error: ApiError) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
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
