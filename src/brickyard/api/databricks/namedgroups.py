"""The Groups API 2.0 from before SCIM: 7 calls, for `databricks-cli groups`."""

from __future__ import annotations

import msgspec

from brickyard.api.edge.group import ADMIN, Group
from brickyard.api.edge.registry import Empty, Operation
from brickyard.domain.caller import Caller
from brickyard.domain.spec import Wire
from brickyard.features.identity.namedgroups import Member, NamedGroupService


class GroupName(Wire, frozen=True, kw_only=True):
    group_name: str


class PrincipalName(Wire, frozen=True, kw_only=True):
    """One of the two: a user or service principal, or a group."""

    user_name: str = ""
    group_name: str = ""

    @property
    def member(self) -> Member:
        return Member(self.user_name, self.group_name)


class Membership(PrincipalName, frozen=True, kw_only=True):
    parent_name: str


class GroupNames(msgspec.Struct, frozen=True, kw_only=True):
    group_names: list[str] = []


class MemberName(Wire, frozen=True, kw_only=True):
    user_name: str | None = None
    group_name: str | None = None


class GroupMembers(msgspec.Struct, frozen=True, kw_only=True):
    members: list[MemberName] = []


async def _create(named_groups: NamedGroupService, caller: Caller, request: GroupName) -> GroupName:
    return GroupName(group_name=await named_groups.create(caller, request.group_name))


async def _delete(named_groups: NamedGroupService, caller: Caller, request: GroupName) -> None:
    await named_groups.delete(caller, request.group_name)


async def _list(named_groups: NamedGroupService, caller: Caller, request: Empty) -> GroupNames:
    return GroupNames(group_names=await named_groups.names(caller))


async def _members(named_groups: NamedGroupService, caller: Caller, request: GroupName) -> GroupMembers:
    found = await named_groups.members(caller, request.group_name)
    return GroupMembers(
        members=[MemberName(user_name=each.user_name or None, group_name=each.group_name or None) for each in found]
    )


async def _parents(named_groups: NamedGroupService, caller: Caller, request: PrincipalName) -> GroupNames:
    return GroupNames(group_names=await named_groups.parents(caller, request.member))


async def _add(named_groups: NamedGroupService, caller: Caller, request: Membership) -> None:
    await named_groups.add(caller, request.parent_name, request.member)


async def _remove(named_groups: NamedGroupService, caller: Caller, request: Membership) -> None:
    await named_groups.remove(caller, request.parent_name, request.member)


_GROUPS = Group("named_groups", lambda ctx: ctx.services.identity.named_groups, "/api/2.0/groups", needs=ADMIN)
OPERATIONS: tuple[Operation, ...] = (
    _GROUPS("POST /create", _create, "Create a group by name"),
    _GROUPS("POST /delete", _delete, "Delete a group by name", errors=(404,)),
    _GROUPS("GET /list", _list, "The names of all groups"),
    _GROUPS("GET /list-members", _members, "The members of a group by name", errors=(404,)),
    _GROUPS("GET /list-parents", _parents, "The groups that a user or a group is in, by name", errors=(404,)),
    _GROUPS("POST /add-member", _add, "Add a user or a group to a group by name", errors=(404,)),
    _GROUPS("POST /remove-member", _remove, "Remove a user or a group from a group by name", errors=(404,)),
)
