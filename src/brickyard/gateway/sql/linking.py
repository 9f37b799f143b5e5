"""Decides which results clients get as links: what is more than one answer has room for, if the client downloads."""

from __future__ import annotations

from brickyard.features.statements.linked import LinkedResults
from brickyard.gateway.sql.client import Client
from brickyard.gateway.sql.handles import form_of
from brickyard.gateway.sql.linked import LinkedResult
from brickyard.gateway.sql.operations import Operation

DECIDE_S = 5.0  # how long a result may take to turn out small: on a busy cluster, the end of one row takes seconds too


class Linking:
    """One per server. `results`: None if this server has no files for results."""

    def __init__(self, results: LinkedResults | None) -> None:
        self._results = results

    async def settle(self, client: Client, operation: Operation) -> None:
        """Decide how the client gets the result of an operation that is READY. The first decision stays, also where another
        server goes on with the operation: it is recorded before the client is told. Raises ApiError."""
        async with operation.settling:
            if operation.settled:
                return
            form = form_of(operation.id)
            if self._results is not None and client.base_url and form.links and form.takes(operation.columns):
                fits = await operation.fits(DECIDE_S)
                if not fits or (operation.adopted and await self._results.begun(operation.id)):
                    await self._results.begin(operation.id, client.principal, warehouse_id=client.warehouse_id)
                    operation.linked = LinkedResult(operation, self._results, compressed=form.lz4)
            operation.settled = True
