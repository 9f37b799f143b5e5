"""Lists of what a workspace never has here. Clients ask for them before they begin."""

from __future__ import annotations

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.store.store import Store


class EmptyLists:
    """One per server."""

    def __init__(self, *, store: Store, authorizer: Authorizer) -> None:
        self._store = store
        self._authorizer = authorizer

    async def look(self, caller: Caller) -> None:
        """Raises PermissionDenied unless the caller may use the workspace."""
        to = "list what is in the"
        await self._store.read(lambda tx: self._authorizer.require(tx, caller, Permission.WORKSPACE_ACCESS, WORKSPACE, to=to))
