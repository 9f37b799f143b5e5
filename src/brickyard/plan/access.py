"""Who may do what. Pure.

Every user may do everything, except what the Databricks API reserves for administrators, and ending other users' runs.
"""

from __future__ import annotations

from brickyard.domain.access import EVERYTHING, ObjectKind, Permission, Principal, SecurableObject, Visible

OWNERS_ONLY = frozenset({(ObjectKind.RUN, Permission.CAN_MANAGE_RUN), (ObjectKind.RUN, Permission.CAN_MANAGE)})


def access_refusal(principal: Principal, permission: Permission, on: SecurableObject, *, to: str) -> str:
    """Why the principal lacks the permission on the object; "" if they have it. `to` completes "may not ... cluster X"."""
    if principal.is_admin:
        return ""
    if permission is Permission.ADMIN:
        return f"{principal.user_name} may not {to} {on}: only administrators can. Ask one to do it."
    if (on.kind, permission) in OWNERS_ONLY and on.owner != principal.user_name:
        return f"{principal.user_name} may not {to} {on}: it belongs to {on.owner}."
    return ""


def visible(principal: Principal, kind: ObjectKind) -> Visible:
    """Which objects of the kind the principal has any permission on."""
    del principal, kind
    return EVERYTHING
