"""Everybody's personal access tokens, for administrators."""

from __future__ import annotations

from typing import NamedTuple

from brickyard.access import Authorizer
from brickyard.access.credentials import end, usable_by
from brickyard.access.objects import WORKSPACE
from brickyard.access.principals import principal_of
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.errors import InvalidParameterValue, ResourceDoesNotExist
from brickyard.domain.identity import IdentityKind, TokenRow, UserRow
from brickyard.features.credentials.tokens import TokenService, check_comment, insert_token, personal
from brickyard.store.store import Store
from brickyard.store.tx import Tx


class ManagedToken(NamedTuple):
    """A token, with the SCIM ids of its user and of the one who made it; "" for a user who no longer exists."""

    row: TokenRow
    creator: str
    owner_id: str
    creator_id: str


class TokenManagement:
    """One per server. Every method raises PermissionDenied unless the caller is an administrator."""

    def __init__(self, *, tokens: TokenService, store: Store, clock: Clock, authorizer: Authorizer) -> None:
        self._tokens = tokens
        self._store = store
        self._clock = clock
        self._authorizer = authorizer

    async def list(self, caller: Caller, *, created_by: str = "", created_by_id: int | None = None) -> list[ManagedToken]:
        """All unexpired tokens, or those that one user made; oldest first."""
        now = self._clock.now_ms()

        def work(tx: Tx) -> list[ManagedToken]:
            self._require(tx, caller, to="list the tokens of the")
            ids: dict[str, str] = {}
            found = [_managed(tx, row, ids) for row in tx.tokens.all() if not row.expired(now)]
            if created_by:
                found = [each for each in found if each.creator.lower() == created_by.lower()]
            if created_by_id is not None:
                found = [each for each in found if each.creator_id == str(created_by_id)]
            return found

        return await self._store.read(work)

    async def get(self, caller: Caller, token_id: str) -> ManagedToken:
        """Raises ResourceDoesNotExist."""

        def work(tx: Tx) -> ManagedToken:
            self._require(tx, caller, to="read the tokens of the")
            return _managed(tx, personal(tx, token_id), {})

        return await self._store.read(work)

    async def update(self, caller: Caller, token_id: str, *, comment: str) -> ManagedToken:
        """Changes a token's comment. Raises ResourceDoesNotExist and InvalidParameterValue."""
        check_comment(comment)

        def work(tx: Tx) -> ManagedToken:
            self._require(tx, caller, to="change the tokens of the")
            tx.tokens.set_comment(personal(tx, token_id).token_id, comment)
            return _managed(tx, personal(tx, token_id), {})

        return await self._store.write(work)

    async def create_on_behalf(
        self, caller: Caller, application_id: str, *, comment: str, lifetime_seconds: int | None
    ) -> tuple[str, ManagedToken]:
        """Creates a token of a service principal; returns the token itself, this only time, and what is known of it.

        Raises ResourceDoesNotExist, InvalidParameterValue and QuotaExceeded."""

        def work(tx: Tx) -> tuple[str, ManagedToken]:
            self._require(tx, caller, to="create tokens for service principals of the")
            user = tx.users.get(application_id)
            if user is None or user.kind is not IdentityKind.SERVICE_PRINCIPAL:
                raise ResourceDoesNotExist(f"There is no service principal with application ID {application_id}.")
            return self._made(tx, caller, user, comment=comment, lifetime_seconds=lifetime_seconds)

        return await self._store.write(work)

    async def create_for(
        self, caller: Caller, user_name: str, *, comment: str, lifetime_seconds: int | None
    ) -> tuple[str, ManagedToken]:
        """The same for any identity: the first token of somebody new."""

        def work(tx: Tx) -> tuple[str, ManagedToken]:
            self._require(tx, caller, to="create tokens for others in the")
            user = tx.users.get(user_name)
            if user is None:
                raise ResourceDoesNotExist(f"User {user_name} does not exist.")
            return self._made(tx, caller, user, comment=comment, lifetime_seconds=lifetime_seconds)

        return await self._store.write(work)

    async def delete(self, caller: Caller, token_id: str) -> None:
        """Revokes a token at once. Raises ResourceDoesNotExist."""

        def work(tx: Tx) -> None:
            self._require(tx, caller, to="revoke the tokens of the")
            end(tx, personal(tx, token_id).token_id)

        await self._store.write(work)

    def _made(
        self, tx: Tx, caller: Caller, user: UserRow, *, comment: str, lifetime_seconds: int | None
    ) -> tuple[str, ManagedToken]:
        token, row = self._tokens.new(
            user.user_name, comment=comment, lifetime_seconds=lifetime_seconds, created_by=caller.user_name
        )
        if not usable_by(tx, principal_of(tx, user)):
            raise InvalidParameterValue(
                f"{user.user_name} may not use personal access tokens. Grant CAN_USE on authorization/tokens first."
            )
        return token, _managed(tx, insert_token(tx, row), {})

    def _require(self, tx: Tx, caller: Caller, *, to: str) -> None:
        self._authorizer.require(tx, caller, Permission.ADMIN, WORKSPACE, to=to)


def _managed(tx: Tx, row: TokenRow, ids: dict[str, str]) -> ManagedToken:
    """`ids`: user name -> id, for the names that were looked up before."""
    creator = row.created_by or row.user_name
    for name in (row.user_name, creator):
        if name not in ids:
            user = tx.users.get(name)
            ids[name] = user.user_id if user is not None else ""
    return ManagedToken(row, creator, ids[row.user_name], ids[creator])
