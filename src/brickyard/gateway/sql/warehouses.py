"""SQL warehouses, as the gateway needs them: which cluster is behind one."""

from __future__ import annotations

from typing import Protocol

from brickyard.domain.caller import Caller


class Warehouses(Protocol):
    """Those of the workspace. The server gives the implementation to `SqlEntrance`."""

    async def cluster_of(self, caller: Caller, warehouse_id: str) -> str | None:
        """The id of the warehouse's cluster; None if there is no such warehouse. The cluster need not run. Called with every
        request to a warehouse, so it should be quick. Raises ApiError, such as PermissionDenied."""
        ...


class NoWarehouses:
    """A workspace without any."""

    async def cluster_of(self, caller: Caller, warehouse_id: str) -> str | None:
        """Always None."""
        del caller, warehouse_id
        return None
