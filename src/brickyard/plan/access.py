"""Who may do what. Pure.

Administrators may do everything, and an object's owner everything that can be granted on it. Others need a grant, to themselves
or to a group that they are in, of the level or a higher one, on the object or on what contains it. A few things are for everybody
(`_EVERYBODY`).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from brickyard.domain.access import (
    EVERYTHING,
    PERMISSIONS,
    Grant,
    ObjectKind,
    Permission,
    Principal,
    SecurableObject,
    Visible,
)
from brickyard.domain.errors import PermissionDenied
from brickyard.domain.identity import USERS_ID

# The permission that everybody has on every object of the kind. DBFS is open to all users, as in Databricks. So are volumes,
# which have no permissions API here yet, but only who made a volume can rename and delete it. Schemas are made by everybody who
# uses Spark; only their owner changes them through the API.
_EVERYBODY = {
    ObjectKind.DBFS_PATH: Permission.CAN_MANAGE,
    ObjectKind.VOLUME_PATH: Permission.WRITE_VOLUME,
    ObjectKind.VOLUME: Permission.WRITE_VOLUME,
    ObjectKind.SCHEMA: Permission.CREATE_VOLUME,
    ObjectKind.CATALOG: Permission.CREATE_SCHEMA,
}
_SHARED = "/Shared"
_LOBBIES = ("/", "/Users")  # everybody may see which names they hold, as far as they may see what has the name


def holders(principal: Principal) -> frozenset[str]:
    """Whose grants the principal has: its own, its groups' and everybody's."""
    return principal.group_ids | {principal.user_id, USERS_ID}


def level(principal: Principal, on: SecurableObject, grants: Iterable[Grant] = ()) -> int:
    """How many of the kind's permissions the principal has, lowest first."""
    levels = PERMISSIONS[on.kind]
    grantable = len(levels) - (levels[-1] is Permission.ADMIN)
    if principal.is_admin:
        return len(levels)
    if on.owner and on.owner == principal.user_name:
        return grantable
    if on.kind is ObjectKind.WORKSPACE:
        return 0  # entitlements do not include each other
    mine = holders(principal)
    given = [grant.permission for grant in grants if grant.principal in mine]
    return max((levels.index(each) + 1 for each in (*given, for_everybody(on)) if each in levels[:grantable]), default=0)


def for_everybody(on: SecurableObject) -> Permission | None:
    """The permission on the object that nobody needs to be granted."""
    if on.kind is not ObjectKind.WORKSPACE_PATH:
        return _EVERYBODY.get(on.kind)
    if on.id == _SHARED or on.id.startswith(_SHARED + "/"):
        return Permission.CAN_MANAGE
    return Permission.CAN_READ if on.id in _LOBBIES else None


def access_refusal(
    principal: Principal, permission: Permission, on: SecurableObject, *, to: str, grants: Iterable[Grant] = ()
) -> str:
    """Why the principal lacks the permission on the object; "" if they have it. `to` completes "may not ... cluster X"."""
    permission = on.taking(permission)
    if principal.is_admin:
        return ""
    if permission is Permission.ADMIN:
        return f"{principal.user_name} may not {to} {on}: only administrators can. Ask one to do it."
    if on.kind is ObjectKind.WORKSPACE:
        return _entitlement_refusal(principal, permission, to)
    if level(principal, on, grants) > PERMISSIONS[on.kind].index(permission):
        return ""
    lacks = f"{principal.user_name} may not {to} {on}: that takes the {permission.value} permission on it"
    return f"{lacks}. Ask {_who_can(on)} for it."


def _entitlement_refusal(principal: Principal, entitlement: Permission, to: str) -> str:
    if entitlement.value in principal.entitlements:
        return ""
    policy = ", or a cluster policy that may be used" if entitlement is Permission.ALLOW_CLUSTER_CREATE else ""
    lacks = f"that takes the entitlement {entitlement.value}{policy}"
    return f"{principal.user_name} may not {to} workspace: {lacks}. Ask an administrator for it."


def _who_can(on: SecurableObject) -> str:
    if PERMISSIONS[on.kind][-2:] == (Permission.CAN_USE, Permission.ADMIN):
        return "an administrator"
    top = next(each for each in reversed(PERMISSIONS[on.kind]) if each is not Permission.ADMIN)
    owner = f"{on.owner}, " if on.owner else ""
    return f"{owner}somebody with {top.value} permission or an administrator"


class Acl(msgspec.Struct, frozen=True):
    """Everything that decides about access to one object, as read in a transaction. It may be cached together with what was read
    of the object, and for as long: a change of grants is a change of the object."""

    on: SecurableObject
    grants: tuple[Grant, ...] = ()

    def allows(self, principal: Principal, permission: Permission) -> bool:
        """Whether the principal has the permission."""
        return not access_refusal(principal, permission, self.on, to="", grants=self.grants)

    def require(self, principal: Principal, permission: Permission, *, to: str) -> None:
        """Raises PermissionDenied unless the principal has the permission. `to` completes "may not ... cluster X"."""
        if why := access_refusal(principal, permission, self.on, to=to, grants=self.grants):
            held = PERMISSIONS[self.on.kind][: level(principal, self.on, self.grants)]
            raise PermissionDenied(why, required=permission.value, held=[each.value for each in held])


def visible(principal: Principal) -> Visible:
    """Which objects the principal has any permission on."""
    return EVERYTHING if principal.is_admin else Visible(owner=principal.user_name, holders=holders(principal))
