"""Who may do what. Pure.

Every user may do everything, except what the Databricks API reserves for administrators, ending other users' runs, and what is
granted object by object: secret scopes.
"""

from __future__ import annotations

from collections.abc import Iterable

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
from brickyard.domain.secrets import USERS

OWNERS_ONLY = frozenset({(ObjectKind.RUN, Permission.CAN_MANAGE_RUN), (ObjectKind.RUN, Permission.CAN_MANAGE)})
BY_GRANT = frozenset({ObjectKind.SECRET_SCOPE})  # nobody has a permission on these without a grant


def access_refusal(
    principal: Principal, permission: Permission, on: SecurableObject, *, to: str, grants: Iterable[Grant] = ()
) -> str:
    """Why the principal lacks the permission on the object; "" if they have it. `to` completes "may not ... cluster X"."""
    if principal.is_admin:
        return ""
    if permission is Permission.ADMIN:
        return f"{principal.user_name} may not {to} {on}: only administrators can. Ask one to do it."
    if (on.kind, permission) in OWNERS_ONLY and on.owner != principal.user_name:
        return f"{principal.user_name} may not {to} {on}: it belongs to {on.owner}."
    if on.kind in BY_GRANT and not _granted(principal, permission, on.kind, grants):
        lacks = f"that takes the {permission.value} permission on it"
        return f"{principal.user_name} may not {to} {on}: {lacks}. Ask somebody with MANAGE permission or an administrator."
    return ""


def _granted(principal: Principal, permission: Permission, kind: ObjectKind, grants: Iterable[Grant]) -> bool:
    levels = PERMISSIONS[kind]
    enough = levels[levels.index(permission) :]
    return any(grant.principal in (principal.user_name, USERS) and grant.permission in enough for grant in grants)


def visible(principal: Principal, kind: ObjectKind) -> Visible:
    """Which objects of the kind the principal has any permission on."""
    del principal, kind
    return EVERYTHING
