"""Who is in which group, as SCIM shows it; and rules that hold for all of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE
from brickyard.access.principals import active_principal
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.errors import PermissionDenied
from brickyard.domain.identity import USERS_ID, GroupRow
from brickyard.features.identity.scim.errors import ScimError, ScimType
from brickyard.features.identity.scim.resources import Reference, place_of
from brickyard.store.identity import LOCK
from brickyard.store.tx import Tx


def groups_of(tx: Tx, member_ids: Collection[str], *, everyone: bool) -> dict[str, list[Reference]]:
    """The groups that each is in, by name. `everyone`: the members are identities, so they are in `users` too."""
    parents = tx.groups.above(member_ids)
    known, unknown = dict(parents), {group for found in parents.values() for group in found}
    while unknown := unknown - known.keys():
        found = tx.groups.above(unknown)
        known.update({group: found.get(group, set()) for group in unknown})
        unknown = {group for found in known.values() for group in found}
    direct = {member: parents.get(member, set()) | ({USERS_ID} if everyone else set()) for member in member_ids}
    every = {member: _closed(groups, known) for member, groups in direct.items()}
    rows = tx.groups.many({group for groups in every.values() for group in groups})
    return {
        member: [
            Reference(row.group_id, row.display_name, "Groups", row.group_id in direct[member])
            for row in sorted((rows[group] for group in groups if group in rows), key=lambda row: row.display_name)
        ]
        for member, groups in every.items()
    }


def _closed(groups: Collection[str], known: dict[str, set[str]]) -> set[str]:
    found, left = set(groups), list(groups)
    while left:
        new = known.get(left.pop(), set()) - found
        found |= new
        left.extend(new)
    return found


def members_of(tx: Tx, groups: Sequence[GroupRow]) -> dict[str, list[Reference]]:
    """The members of each group. Those of `users` are not listed: that is everyone."""
    members = tx.groups.members([group.group_id for group in groups])
    ids = {member for found in members.values() for member in found}
    users, inner = tx.users.many(ids), tx.groups.many(ids)
    references = {
        **{each.user_id: Reference(each.user_id, each.display_name, place_of(each.kind)) for each in users.values()},
        **{each.group_id: Reference(each.group_id, each.display_name, "Groups") for each in inner.values()},
    }
    return {group: [references[member] for member in found if member in references] for group, found in members.items()}


def add_members(tx: Tx, group_id: str, ids: Collection[str]) -> None:
    """Raises ScimError for ids that nobody has, and for groups that would contain each other."""
    groups = tx.groups.many(ids)
    if missing := sorted(set(ids) - tx.users.many(ids).keys() - groups.keys()):
        raise ScimError(ScimType.INVALID_VALUE, f"There is no user, service principal or group with the id {missing[0][:100]}.")
    if USERS_ID in (group_id, *groups):
        raise ScimError(ScimType.MUTABILITY, "Everyone is a member of users, so it takes no members and cannot be one.")
    if groups:
        above = {each.id for each in groups_of(tx, [group_id], everyone=False)[group_id]} | {group_id}
        if circle := sorted(above & groups.keys()):
            name = groups[circle[0]].display_name
            raise ScimError(ScimType.INVALID_VALUE, f"Group {name} cannot become a member: it contains this group, or is it.")
    tx.groups.add(group_id, ids)


def may_change(tx: Tx, authorizer: Authorizer, caller: Caller, *, to: str) -> None:
    """Raises PermissionDenied unless the caller is an administrator: also now, when it is its turn to change something. Takes
    turns with all who change identities and groups."""
    tx.lock(LOCK)
    authorizer.require(tx, caller, Permission.ADMIN, WORKSPACE, to=to)
    now = active_principal(tx, caller.user_name)
    if now is None or not now.is_admin:
        raise PermissionDenied(f"{caller.user_name} is no administrator any more.")
