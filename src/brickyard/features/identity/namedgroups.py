"""The groups API from before SCIM, which names groups and their members instead of giving ids. It shows the same groups."""

from __future__ import annotations

from typing import NamedTuple

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE
from brickyard.access.principals import check_admins
from brickyard.access.users import new_group
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.errors import InvalidParameterValue, ResourceAlreadyExists, ResourceDoesNotExist
from brickyard.domain.identity import USERS_ID, GroupRow, IdentityKind
from brickyard.features.identity.groups import put_new, remove
from brickyard.features.identity.relations import add_members, may_change
from brickyard.features.identity.scim.resources import checked_name
from brickyard.store.store import Store
from brickyard.store.tx import Tx

_SHOWN = 100


class Member(NamedTuple):
    """A user or service principal, or a group: one of the two names is empty."""

    user_name: str = ""
    group_name: str = ""


class NamedGroupService:
    """For administrators only, as Databricks documents it. Every method raises ApiError."""

    def __init__(self, *, store: Store, clock: Clock, ids: Ids, authorizer: Authorizer) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._authorizer = authorizer

    async def create(self, caller: Caller, name: str) -> str:
        """Creates a group without members. Returns its name."""

        def work(tx: Tx) -> str:
            self._may_change(tx, caller)
            if tx.groups.by_name(checked_name(name, "group_name")) is not None:
                raise ResourceAlreadyExists(f"Group with name {name} already exists.")
            put_new(tx, new_group(name, ids=self._ids, now_ms=self._clock.now_ms()))
            return name

        return await self._store.write(work)

    async def delete(self, caller: Caller, name: str) -> None:
        """Deletes a group; its members stay."""

        def work(tx: Tx) -> None:
            self._may_change(tx, caller)
            remove(tx, _group(tx, name, "group_name"))

        await self._store.write(work)

    async def names(self, caller: Caller) -> list[str]:
        """The names of all groups, oldest first."""

        def work(tx: Tx) -> list[str]:
            self._may_see(tx, caller)
            return [row.display_name for row in tx.groups.all()]

        return await self._store.read(work)

    async def members(self, caller: Caller, name: str) -> list[Member]:
        """The direct members of a group, users first."""

        def work(tx: Tx) -> list[Member]:
            self._may_see(tx, caller)
            group = _group(tx, name, "group_name")
            if group.group_id == USERS_ID:
                return [Member(user_name=each.user_name) for kind in IdentityKind for each in tx.users.all(kind)]
            ids = tx.groups.members([group.group_id]).get(group.group_id, [])
            users = sorted(each.user_name for each in tx.users.many(ids).values())
            groups = sorted(each.display_name for each in tx.groups.many(ids).values())
            return [Member(user_name=each) for each in users] + [Member(group_name=each) for each in groups]

        return await self._store.read(work)

    async def parents(self, caller: Caller, member: Member) -> list[str]:
        """The names of the groups that have the member directly, in order. Everyone is in `users`."""

        def work(tx: Tx) -> list[str]:
            self._may_see(tx, caller)
            member_id = _member_id(tx, member)
            ids = tx.groups.above([member_id]).get(member_id, set()) | ({USERS_ID} if member.user_name else set())
            return sorted(row.display_name for row in tx.groups.many(ids).values())

        return await self._store.read(work)

    async def add(self, caller: Caller, parent: str, member: Member) -> None:
        """Adds a member to a group. One that it has already stays."""

        def work(tx: Tx) -> None:
            self._may_change(tx, caller)
            add_members(tx, _group(tx, parent, "parent_name").group_id, [_member_id(tx, member)])

        await self._store.write(work)

    async def remove(self, caller: Caller, parent: str, member: Member) -> None:
        """Removes a direct member from a group."""

        def work(tx: Tx) -> None:
            self._may_change(tx, caller)
            group, member_id = _group(tx, parent, "parent_name"), _member_id(tx, member)
            if group.group_id == USERS_ID:
                raise InvalidParameterValue("Everyone is a member of users, so nobody can be removed from it.")
            if group.group_id not in tx.groups.above([member_id]).get(member_id, set()):
                raise ResourceDoesNotExist(f"{_shown(member)} is not a member of group {parent[:_SHOWN]} itself.")
            tx.groups.remove(group.group_id, [member_id])
            check_admins(tx)

        await self._store.write(work)

    def _may_see(self, tx: Tx, caller: Caller) -> None:
        self._authorizer.require(tx, caller, Permission.ADMIN, WORKSPACE, to="read groups by name in the")

    def _may_change(self, tx: Tx, caller: Caller) -> None:
        may_change(tx, self._authorizer, caller, to="change groups of the")


def _group(tx: Tx, name: str, field: str) -> GroupRow:
    if not name:
        raise InvalidParameterValue(f"Missing required field: {field}")
    row = tx.groups.by_name(name)
    if row is None:
        raise ResourceDoesNotExist(f"{field}: group {name[:_SHOWN]} does not exist.")
    return row


def _member_id(tx: Tx, member: Member) -> str:
    if bool(member.user_name) == bool(member.group_name):
        raise InvalidParameterValue("Give one of user_name and group_name.")
    if member.group_name:
        return _group(tx, member.group_name, "group_name").group_id
    user = tx.users.get(member.user_name)
    if user is None:
        raise ResourceDoesNotExist(f"user_name: user {member.user_name[:_SHOWN]} does not exist.")
    return user.user_id


def _shown(member: Member) -> str:
    return f"User {member.user_name[:_SHOWN]}" if member.user_name else f"Group {member.group_name[:_SHOWN]}"
