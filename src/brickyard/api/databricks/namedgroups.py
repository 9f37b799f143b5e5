"""The Groups API 2.0 from before SCIM: 7 calls, for `databricks-cli groups`."""

from __future__ import annotations

from typing import Any

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.edge.registry import Empty, Handler, Need, Operation
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.spec import Wire
from brickyard.services.caller import Caller
from brickyard.services.identity.namedgroups import Member


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


async def _create(ctx: ApiContext, caller: Caller, request: GroupName) -> GroupName:
    return GroupName(group_name=await ctx.services.identity.named_groups.create(caller, request.group_name))


async def _delete(ctx: ApiContext, caller: Caller, request: GroupName) -> None:
    await ctx.services.identity.named_groups.delete(caller, request.group_name)


async def _list(ctx: ApiContext, caller: Caller, request: Empty) -> GroupNames:
    return GroupNames(group_names=await ctx.services.identity.named_groups.names(caller))


async def _members(ctx: ApiContext, caller: Caller, request: GroupName) -> GroupMembers:
    found = await ctx.services.identity.named_groups.members(caller, request.group_name)
    return GroupMembers(
        members=[MemberName(user_name=each.user_name or None, group_name=each.group_name or None) for each in found]
    )


async def _parents(ctx: ApiContext, caller: Caller, request: PrincipalName) -> GroupNames:
    return GroupNames(group_names=await ctx.services.identity.named_groups.parents(caller, request.member))


async def _add(ctx: ApiContext, caller: Caller, request: Membership) -> None:
    await ctx.services.identity.named_groups.add(caller, request.parent_name, request.member)


async def _remove(ctx: ApiContext, caller: Caller, request: Membership) -> None:
    await ctx.services.identity.named_groups.remove(caller, request.parent_name, request.member)


def _operation(method: str, verb: str, handler: Handler, summary: str, **options: Any) -> Operation:
    return Operation(
        name=f"named_groups.{verb.replace('-', '_')}",
        method=method,
        paths=(f"/api/2.0/groups/{verb}",),
        handler=handler,
        summary=summary,
        needs=(Need(Permission.ADMIN, ObjectKind.WORKSPACE),),
        **options,
    )


OPERATIONS: tuple[Operation, ...] = (
    _operation("POST", "create", _create, "Create a group by name", request=GroupName, response=GroupName),
    _operation("POST", "delete", _delete, "Delete a group by name", request=GroupName, errors=(404,)),
    _operation("GET", "list", _list, "The names of all groups", response=GroupNames),
    _operation("GET", "list-members", _members, "The members of a group by name", request=GroupName, response=GroupMembers,
               errors=(404,)),
    _operation("GET", "list-parents", _parents, "The groups that a user or a group is in, by name", request=PrincipalName,
               response=GroupNames, errors=(404,)),
    _operation("POST", "add-member", _add, "Add a user or a group to a group by name", request=Membership, errors=(404,)),
    _operation("POST", "remove-member", _remove, "Remove a user or a group from a group by name", request=Membership,
               errors=(404,)),
)  # fmt: skip
