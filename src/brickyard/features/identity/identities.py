"""People and service principals: what SCIM does with them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from brickyard.access import Authorizer
from brickyard.access.homes import Homes
from brickyard.access.objects import WORKSPACE
from brickyard.access.principals import check_admins
from brickyard.access.users import new_user
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.errors import ResourceDoesNotExist
from brickyard.domain.identity import IdentityKind, UserRow
from brickyard.features.identity.listing import Asked, Resource, Shown, list_resources, show
from brickyard.features.identity.relations import add_members, groups_of, may_change
from brickyard.features.identity.scim.errors import ScimError, ScimType
from brickyard.features.identity.scim.filters import find
from brickyard.features.identity.scim.patch import apply, check_changeable, parse_patch
from brickyard.features.identity.scim.resources import member_ids, new_application_id, new_user_name, of_user, to_user
from brickyard.store.store import Store
from brickyard.store.tx import Tx

MOST = 100_000  # identities of each kind
_WORDS = {IdentityKind.USER: "User", IdentityKind.SERVICE_PRINCIPAL: "Service principal"}
# Terraform compares the whole messages before it adopts what exists.
_EXISTS = {
    IdentityKind.USER: "User with username {} already exists.",
    IdentityKind.SERVICE_PRINCIPAL: "Service principal with application ID {} already exists.",
}


class IdentityService:
    """Of one kind of identity. Only administrators change them; everyone sees who there is. Methods raise ApiError."""

    def __init__(self, *, kind: IdentityKind, store: Store, clock: Clock, ids: Ids, authorizer: Authorizer, homes: Homes) -> None:
        self._kind = kind
        self._homes = homes
        self._store = store
        self._clock = clock
        self._ids = ids
        self._authorizer = authorizer

    async def create(self, caller: Caller, resource: Mapping[str, Any]) -> Resource:
        """Creates an identity, with the groups that the resource names."""

        def work(tx: Tx) -> Resource:
            self._may_change(tx, caller)
            name = new_user_name(resource) if self._kind is IdentityKind.USER else new_application_id(resource, str(uuid.uuid4()))
            if tx.users.get(name) is not None:
                raise ScimError(ScimType.UNIQUENESS, _EXISTS[self._kind].format(name))
            if tx.users.count(self._kind) >= MOST:
                raise ScimError(ScimType.INVALID_VALUE, f"The workspace has {MOST} of them, which is the maximum.")
            fresh = msgspec.structs.replace(new_user(name, ids=self._ids, now_ms=self._clock.now_ms()), kind=self._kind)
            row = to_user(resource, fresh)
            tx.users.put(row)
            key = find(resource, "groups")
            for group_id in member_ids(resource[key]) if key is not None else []:
                if tx.groups.get(group_id) is None:
                    raise ScimError(ScimType.INVALID_VALUE, f"groups: there is no group with the id {group_id[:100]}.")
                add_members(tx, group_id, [row.user_id])
            self._homes.retire(tx, name)
            return _built(tx, [row])[0]

        created = await self._store.write(work)
        await asyncio.to_thread(self._homes.make, created.get("userName") or created["applicationId"])
        return created

    async def get(self, caller: Caller, user_id: str, shown: Shown) -> Resource:
        """One identity."""

        def work(tx: Tx) -> Resource:
            self._may_see(tx, caller)
            everything = caller.is_admin or caller.user_id == user_id
            return show(_built(tx, [self._found(tx, user_id)])[0], shown._replace(everything=everything))

        return await self._store.read(work)

    async def search(self, caller: Caller, asked: Asked) -> Resource:
        """A page of those for which the filter holds."""

        def work(tx: Tx) -> Resource:
            self._may_see(tx, caller)
            return list_resources(
                _Identities(tx, self._kind), asked._replace(shown=asked.shown._replace(everything=caller.is_admin))
            )

        return await self._store.read(work)

    async def replace(self, caller: Caller, user_id: str, resource: Mapping[str, Any]) -> Resource:
        """Replaces all attributes; those that the resource lacks are removed."""
        return await self._change(caller, user_id, lambda _: resource)

    async def patch(self, caller: Caller, user_id: str, body: Mapping[str, Any]) -> Resource:
        """Applies a patch."""
        changes = parse_patch(body)
        check_changeable(changes, user_id)
        return await self._change(caller, user_id, lambda now: apply(now, changes))

    async def delete(self, caller: Caller, user_id: str) -> None:
        """Deletes an identity with its tokens, memberships and permissions. Its clusters stay, as those of its name,
        and so does its home, until another user of that name is made (`features.files.homes`)."""

        def work(tx: Tx) -> None:
            self._may_change(tx, caller)
            row = self._found(tx, user_id)
            tx.users.delete(user_id)
            tx.tokens.delete_of_user(row.user_name)
            tx.grants.forget_principal(user_id)
            check_admins(tx)

        await self._store.write(work)

    async def _change(self, caller: Caller, user_id: str, change: Callable[[Resource], Mapping[str, Any]]) -> Resource:
        def work(tx: Tx) -> Resource:
            self._may_change(tx, caller)
            before = self._found(tx, user_id)
            row = to_user(change(of_user(before)), before)
            if row != before:
                row = msgspec.structs.replace(row, changed_ms=self._clock.now_ms())
                tx.users.put(row)
                check_admins(tx)
            return _built(tx, [row])[0]

        return await self._store.write(work)

    def _found(self, tx: Tx, user_id: str) -> UserRow:
        row = tx.users.by_id(user_id)
        if row is None or row.kind is not self._kind:
            raise ResourceDoesNotExist(f"{_WORDS[self._kind]} with id {user_id[:100]} not found.")
        return row

    def _may_see(self, tx: Tx, caller: Caller) -> None:
        self._authorizer.require(tx, caller, Permission.WORKSPACE_ACCESS, WORKSPACE, to="use the")

    def _may_change(self, tx: Tx, caller: Caller) -> None:
        may_change(tx, self._authorizer, caller, to="change identities of the")


class _Identities:
    """The source of a list."""

    def __init__(self, tx: Tx, kind: IdentityKind) -> None:
        self._tx, self._kind = tx, kind

    def total(self) -> int:
        return self._tx.users.count(self._kind)

    def page(self, offset: int, limit: int) -> list[UserRow]:
        return self._tx.users.page(self._kind, offset=offset, limit=limit)

    def candidates(self, values: Mapping[str, str]) -> list[UserRow]:
        """Rows that an index finds, if one can."""
        users, name = self._tx.users, values.get("username" if self._kind is IdentityKind.USER else "applicationid")
        if name is not None or "id" in values:
            row = users.get(name) if name is not None else users.by_id(values["id"])
            return [row] if row is not None and row.kind is self._kind else []
        return users.all(self._kind, external_id=values.get("externalid", ""))

    def build(self, rows: Sequence[UserRow], relations: frozenset[str]) -> list[Resource]:
        return _built(self._tx, rows, groups="groups" in relations)


def _built(tx: Tx, rows: Sequence[UserRow], *, groups: bool = True) -> list[Resource]:
    found = groups_of(tx, [row.user_id for row in rows], everyone=True) if groups else {}
    return [of_user(row, found.get(row.user_id, ())) for row in rows]
