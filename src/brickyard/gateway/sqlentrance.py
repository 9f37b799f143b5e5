"""Leads to SQL on clusters. What it needs is imported with its first request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

from brickyard.api.edge.authentication import Authenticator
from brickyard.api.edge.hosts import Hosts
from brickyard.domain.errors import ResourceDoesNotExist
from brickyard.domain.tracing import Tracing
from brickyard.domain.warehouses import NoTasks, NoWarehouses, TaskCallers, Warehouses
from brickyard.gateway.answers import refuse

if TYPE_CHECKING:
    from brickyard.features.statements.linked import LinkedResults
    from brickyard.gateway.connect import ConnectGateway
    from brickyard.gateway.sql.door import SqlDoor
    from brickyard.gateway.sql.observing import StatementObserver


NO_SPARK = "No provider of this workspace runs Spark."


class SqlEntrance:
    """The ASGI application for all paths below `prefixes`. `warehouses`: None if the workspace has none. `observer` learns of
    each statement; None: nobody does. `tasks`: callers with tokens of tasks; None: there are none. `hosts`, `results`: where
    links to large results lead to, and their files; None: results are in the answers. `tracing`: None if nothing is traced."""

    prefixes = ("/sql/protocolv1/", "/sql/1.0/")  # the web page has others below /sql/

    def __init__(
        self,
        authenticator: Authenticator,
        *,
        warehouses: Warehouses | None = None,
        observer: StatementObserver | None = None,
        tasks: TaskCallers | None = None,
        hosts: Hosts | None = None,
        results: LinkedResults | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._authenticator = authenticator
        self._warehouses, self._observer, self._tasks = warehouses, observer, tasks
        self._hosts, self._results, self._tracing = hosts, results, tracing
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
            await refuse(scope, send, ResourceDoesNotExist(NO_SPARK), page="")
            return
        await self.door()(scope, receive, send)

    def door(self) -> SqlDoor:
        """What serves: `driver` and `service.operations` run statements for other ways in, too. Raises ResourceDoesNotExist if no
        provider of the workspace runs Spark."""
        if self._gateway is None:
            raise ResourceDoesNotExist(NO_SPARK)
        if self._door is None:
            # Thrift and Arrow, only where they are used.
            from brickyard.gateway.sql.door import SqlDoor  # noqa: PLC0415
            from brickyard.gateway.sql.observing import Unobserved  # noqa: PLC0415

            self._door = SqlDoor(
                authenticator=self._authenticator,
                gateway=self._gateway,
                warehouses=self._warehouses or NoWarehouses(),
                observer=self._observer or Unobserved(),
                tasks=self._tasks or NoTasks(),
                hosts=self._hosts,
                results=self._results,
                tracing=self._tracing,
            )
        return self._door
