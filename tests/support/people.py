"""Identities in a test's database."""

from __future__ import annotations

import msgspec

from brickyard.domain.access import Principal
from brickyard.domain.identity import ADMINS_ID, UserRow
from brickyard.store.tx import Tx

ENTITLED = frozenset({"workspace-access", "allow-cluster-create", "allow-instance-pool-create"})


def enter(tx: Tx, *principals: Principal) -> None:
    """Makes them identities of the workspace, and administrators members of `admins`."""
    for each in principals:
        entitlements = tuple(sorted(each.entitlements))
        tx.users.put(UserRow(user_name=each.user_name, user_id=each.user_id, display_name="u", entitlements=entitlements))
        if each.is_admin:
            tx.groups.add(ADMINS_ID, [each.user_id])


def lock_out(tx: Tx, principal: Principal) -> None:
    """Deactivates the identity."""
    user = tx.users.get(principal.user_name)
    assert user is not None
    tx.users.put(msgspec.structs.replace(user, active=False))
