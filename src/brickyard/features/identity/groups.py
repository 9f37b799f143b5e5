"""Groups: what SCIM does with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE
from brickyard.access.principals import check_admins
from brickyard.access.users import new_group
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.errors import ResourceDoesNotExist
from brickyard.domain.identity import BUILT_IN, GroupRow
from brickyard.features.identity.listing import Asked, Resource, Shown, list_resources, show
from brickyard.features.identity.relations import add_members, groups_of, may_change, members_of
from brickyard.features.identity.scim.errors import ScimError, ScimType
from brickyard.features.identity.scim.filters import find, matches, names, required
from brickyard.features.identity.scim.patch import Change, apply, check_changeable, parse_patch
from brickyard.features.identity.scim.resources import checked_name, member_ids, of_group, to_group
from brickyard.store.store import Store
from brickyard.store.tx import Tx

MOST = 10_000


class GroupService:
    """Only administrators change groups; everyone sees who is in them. Methods raise ApiError."""

    def __init__(self, *, store: Store, clock: Clock, ids: Ids, authorizer: Authorizer) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._authorizer = authorizer

    async def create(self, caller: Caller, resource: Mapping[str, Any]) -> Resource:
        """Creates a group, with the members that the resource names."""

        def work(tx: Tx) -> Resource:
            self._may_change(tx, caller)
            row = to_group(resource, new_group("", ids=self._ids, now_ms=self._clock.now_ms()))
            put_new(tx, row)
            add_members(tx, row.group_id, _members(resource))
            return _built(tx, [row])[0]

        return await self._store.write(work)

    async def get(self, caller: Caller, group_id: str, shown: Shown) -> Resource:
        """One group."""

        def work(tx: Tx) -> Resource:
            self._may_see(tx, caller)
            return show(_built(tx, [_found(tx, group_id)])[0], shown._replace(everything=caller.is_admin))

        return await self._store.read(work)

    async def search(self, caller: Caller, asked: Asked) -> Resource:
        """A page of those for which the filter holds."""

        def work(tx: Tx) -> Resource:
            self._may_see(tx, caller)
            return list_resources(_Groups(tx), asked._replace(shown=asked.shown._replace(everything=caller.is_admin)))

        return await self._store.read(work)

    async def replace(self, caller: Caller, group_id: str, resource: Mapping[str, Any]) -> Resource:
        """Replaces all attributes and members; those that the resource lacks are removed."""

        def work(tx: Tx) -> Resource:
            self._may_change(tx, caller)
            row = self._write(tx, _found(tx, group_id), resource)
            _set_members(tx, group_id, _members(resource))
            check_admins(tx)
            return _built(tx, [row])[0]

        return await self._store.write(work)

    async def patch(self, caller: Caller, group_id: str, body: Mapping[str, Any]) -> None:
        """Applies a patch. Its cost depends on the members that it names, not on those that the group has."""
        changes = parse_patch(body)
        check_changeable(changes, group_id)
        others = [change for change in changes if not _is_of_members(change)]

        def work(tx: Tx) -> None:
            self._may_change(tx, caller)
            row = _found(tx, group_id)
            if others:
                self._write(tx, row, apply(of_group(row), others))
            for change in changes:
                if _is_of_members(change):
                    _change_members(tx, row, change)
            check_admins(tx)

        await self._store.write(work)

    async def delete(self, caller: Caller, group_id: str) -> None:
        """Deletes a group; its members stay."""

        def work(tx: Tx) -> None:
            self._may_change(tx, caller)
            remove(tx, _found(tx, group_id))

        await self._store.write(work)

    def _write(self, tx: Tx, before: GroupRow, resource: Mapping[str, Any]) -> GroupRow:
        row = to_group(resource, before)
        if before.group_id in BUILT_IN and row.display_name != before.display_name:
            raise ScimError(ScimType.MUTABILITY, f"Group {before.display_name} is in every workspace and keeps its name.")
        if row != before:
            _check_name(tx, row)
            row = msgspec.structs.replace(row, changed_ms=self._clock.now_ms())
            tx.groups.put(row)
        return row

    def _may_see(self, tx: Tx, caller: Caller) -> None:
        self._authorizer.require(tx, caller, Permission.WORKSPACE_ACCESS, WORKSPACE, to="use the")

    def _may_change(self, tx: Tx, caller: Caller) -> None:
        may_change(tx, self._authorizer, caller, to="change groups of the")


def put_new(tx: Tx, row: GroupRow) -> None:
    """Adds a group. Raises ScimError if there is one with its name, or no room for another."""
    _check_name(tx, row)
    if tx.groups.count() >= MOST:
        raise ScimError(ScimType.INVALID_VALUE, f"The workspace has {MOST} groups, which is the maximum.")
    tx.groups.put(row)


def remove(tx: Tx, row: GroupRow) -> None:
    """Removes a group with its grants. Raises ScimError for one that every workspace has."""
    if row.group_id in BUILT_IN:
        raise ScimError(ScimType.MUTABILITY, f"Group {row.display_name} is in every workspace and cannot be deleted.")
    tx.groups.delete(row.group_id)
    tx.grants.forget_principal(row.group_id)
    check_admins(tx)


def _check_name(tx: Tx, row: GroupRow) -> None:
    other = tx.groups.by_name(checked_name(row.display_name, "displayName"))
    if other is not None and other.group_id != row.group_id:
        raise ScimError(ScimType.UNIQUENESS, f"Group with name {row.display_name} already exists.")


def _found(tx: Tx, group_id: str) -> GroupRow:
    row = tx.groups.get(group_id)
    if row is None:
        raise ResourceDoesNotExist(f"Group with id {group_id[:100]} not found.")
    return row


class _Groups:
    """The source of a list."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def total(self) -> int:
        return self._tx.groups.count()

    def page(self, offset: int, limit: int) -> list[GroupRow]:
        return self._tx.groups.page(offset=offset, limit=limit)

    def candidates(self, values: Mapping[str, str]) -> list[GroupRow]:
        """Rows that an index finds, if one can."""
        groups = self._tx.groups
        if "displayname" in values or "id" in values:
            row = groups.by_name(values["displayname"]) if "displayname" in values else groups.get(values["id"])
            return [row] if row is not None else []
        return groups.all(external_id=values.get("externalid", ""))

    def build(self, rows: Sequence[GroupRow], relations: frozenset[str]) -> list[Resource]:
        return _built(self._tx, rows, relations)


def _built(tx: Tx, rows: Sequence[GroupRow], relations: frozenset[str] = frozenset({"members", "groups"})) -> list[Resource]:
    members = members_of(tx, rows) if "members" in relations else {}
    groups = groups_of(tx, [row.group_id for row in rows], everyone=False) if "groups" in relations else {}
    return [of_group(row, members.get(row.group_id, ()), groups.get(row.group_id, ())) for row in rows]


def _members(resource: Mapping[str, Any]) -> list[str]:
    key = find(resource, "members")
    return member_ids(resource[key]) if key is not None else []


def _set_members(tx: Tx, group_id: str, wanted: Sequence[str]) -> None:
    before = set(tx.groups.members([group_id]).get(group_id, ()))
    tx.groups.remove(group_id, before - set(wanted))
    add_members(tx, group_id, set(wanted) - before)


def _is_of_members(change: Change) -> bool:
    return change.path.name[0].lower() == "members"


def _change_members(tx: Tx, group: GroupRow, change: Change) -> None:
    """Raises ScimError."""
    which, group_id = change.path.filter, group.group_id
    if which is not None:
        if change.operation != "remove" or change.path.part:
            raise ScimError(ScimType.INVALID_PATH, "Members have no parts to change: add or remove whole members.")
        if set(names(which)) == {"value"} and (member := dict(required(which)).get("value")) is not None:
            found = [member] if matches(which, {"value": member}) else []  # the usual filter: the other members are not read
        else:
            now = members_of(tx, [group]).get(group_id, [])
            found = [each.id for each in now if matches(which, {"value": each.id, "display": each.display})]
        tx.groups.remove(group_id, found)
    elif change.operation == "add":
        add_members(tx, group_id, member_ids(change.value))
    elif change.operation == "replace":
        _set_members(tx, group_id, member_ids(change.value))
    elif change.value is not None:
        tx.groups.remove(group_id, member_ids(change.value))
    else:
        _set_members(tx, group_id, ())
