"""The caller as a SCIM resource."""

from __future__ import annotations

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.errors import ResourceDoesNotExist
from brickyard.features.identity.listing import Resource, Shown, show
from brickyard.features.identity.relations import groups_of
from brickyard.features.identity.scim.resources import effective, of_user
from brickyard.store.store import Store
from brickyard.store.tx import Tx


class MeService:
    """One per server."""

    def __init__(self, *, store: Store, authorizer: Authorizer) -> None:
        self._store = store
        self._authorizer = authorizer

    async def get(self, caller: Caller, shown: Shown) -> Resource:
        """The caller, with the entitlements that it has by itself and through its groups. Raises ResourceDoesNotExist if it has
        just been removed."""

        def work(tx: Tx) -> Resource:
            self._authorizer.require(tx, caller, Permission.WORKSPACE_ACCESS, WORKSPACE, to="use the")
            row = tx.users.by_id(caller.user_id)
            if row is None:
                raise ResourceDoesNotExist(f"User {caller.user_name} does not exist.")
            groups = groups_of(tx, [row.user_id], everyone=True)[row.user_id]
            # Of a service principal too, userName is what clients print and compare with an owner's name.
            named = {"userName": row.user_name, "entitlements": effective(caller)}
            return show(of_user(row, groups) | named, shown)

        return await self._store.read(work)
