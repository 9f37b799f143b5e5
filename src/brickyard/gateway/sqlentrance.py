"""Leads to SQL on clusters. What it needs is imported with its first request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

from brickyard.api.edge.authentication import Authenticator
from brickyard.domain.errors import ResourceDoesNotExist
from brickyard.gateway.answers import refuse

if TYPE_CHECKING:
    from brickyard.gateway.connect import ConnectGateway
    from brickyard.gateway.sql.door import SqlDoor


class SqlEntrance:
    """The ASGI application for all paths below `prefix`."""

    prefix = "/sql/"

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._gateway: ConnectGateway | None = None
        self._door: SqlDoor | None = None

    def open(self, gateway: ConnectGateway) -> None:
        """Serves from now on, through that gateway."""
        self._gateway = gateway

    async def close(self) -> None:
        """Ends what runs."""
        if self._door is not None:
            await self._door.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._gateway is None:
            await refuse(scope, send, ResourceDoesNotExist("No provider of this workspace runs Spark."), page="")
            return
        if self._door is None:
            from brickyard.gateway.sql.door import SqlDoor  # noqa: PLC0415 - Thrift and Arrow, only where they are used

            self._door = SqlDoor(authenticator=self._authenticator, gateway=self._gateway)
        await self._door(scope, receive, send)
