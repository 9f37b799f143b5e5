"""Users: so far those who have a token; external identity has a separate issue."""

from __future__ import annotations

from brickyard.domain.access import Permission
from brickyard.domain.clock import Ids
from brickyard.domain.errors import ResourceDoesNotExist
from brickyard.domain.identity import UserRow
from brickyard.services.access import Authorizer
from brickyard.services.access.objects import WORKSPACE
from brickyard.services.caller import Caller
from brickyard.store.store import Store
from brickyard.store.tx import Tx


class UserService:
    """Queries about users."""

    def __init__(self, *, store: Store, authorizer: Authorizer) -> None:
        self._store = store
        self._authorizer = authorizer

    async def me(self, caller: Caller) -> UserRow:
        """The caller. Raises ResourceDoesNotExist if the user has just been removed."""

        def work(tx: Tx) -> UserRow | None:
            self._authorizer.require(tx, caller, Permission.WORKSPACE_ACCESS, WORKSPACE, to="use the")
            return tx.users.get(caller.user_name)

        user = await self._store.read(work)
        if user is None:
            raise ResourceDoesNotExist(f"User {caller.user_name} does not exist.")
        return user

    async def exists(self, user_name: str) -> bool:
        """Whether the user exists."""
        return await self._store.read(lambda tx: tx.users.get(user_name)) is not None


def new_user(user_name: str, *, is_admin: bool, ids: Ids, display_name: str = "") -> UserRow:
    """A user with an id in SCIM's format: a positive number of up to 16 digits."""
    user_id = str(int(ids.hex(13), 16) % 10**16 or 1)
    return UserRow(
        user_name=user_name, user_id=user_id, is_admin=is_admin, display_name=display_name or user_name.partition("@")[0]
    )
