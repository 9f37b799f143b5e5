"""Identities as holders of permissions, with what their groups give them."""

from __future__ import annotations

from brickyard.domain.access import Principal
from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidState
from brickyard.domain.identity import ADMINS_ID, UserRow
from brickyard.store.tx import Tx


def active_principal(tx: Tx, user_name: str) -> Principal | None:
    """The active identity with that name, with its rights as they are now; None if there is none."""
    user = tx.users.get(user_name)
    return principal_of(tx, user) if user is not None and user.active else None


def principal_of(tx: Tx, user: UserRow) -> Principal:
    """The identity with its rights as they are now."""
    groups = tx.groups.of(user.user_id)
    group_ids = frozenset(group.group_id for group in groups)
    return Principal(
        user_name=user.user_name,
        user_id=user.user_id,
        is_admin=ADMINS_ID in group_ids,
        group_ids=group_ids,
        entitlements=frozenset(user.entitlements).union(*(group.entitlements for group in groups)),
    )


def caller_of(principal: Principal, *, token_id: str) -> Caller:
    """The principal, authenticated by that token."""
    return Caller(
        user_name=principal.user_name,
        user_id=principal.user_id,
        is_admin=principal.is_admin,
        group_ids=principal.group_ids,
        entitlements=principal.entitlements,
        token_id=token_id,
    )


def check_admins(tx: Tx) -> None:
    """Raises InvalidState if nobody would be left to administer the workspace. Checked after every change, in its transaction."""
    if not tx.groups.has_active_admin():
        raise InvalidState(
            "This would leave the workspace without an active administrator. Make somebody else a member of admins first."
        )
