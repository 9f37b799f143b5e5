"""The permission seam: services ask here, with the transaction at hand, before they do anything for a principal.

What decides is read in the transaction that reads or changes the object, so no grant can be taken away in between. The decision
itself is pure (`plan.access`). What an operation asks for is declared with it (`api.registry.Need`); a test compares the two.
"""

from __future__ import annotations

import msgspec

from brickyard.domain.access import ObjectKind, Permission, Principal, SecurableObject, Visible
from brickyard.domain.errors import PermissionDenied
from brickyard.plan.access import access_refusal, visible
from brickyard.store.tx import Tx


class Acl(msgspec.Struct, frozen=True):
    """Everything that decides about one object, as a transaction has found it. It may be kept with what was read of the object,
    and for as long."""

    on: SecurableObject

    def require(self, principal: Principal, permission: Permission, *, to: str) -> None:
        """Raise PermissionDenied unless the principal has the permission. `to` completes "may not ... cluster X"."""
        if why := access_refusal(principal, permission, self.on, to=to):
            raise PermissionDenied(why)


class Authorizer:
    """Decides who may do what."""

    def acl(self, tx: Tx, on: SecurableObject) -> Acl:
        """What decides about the object. So far its owner alone, which the object itself says."""
        del tx
        return Acl(on)

    def require(self, tx: Tx, principal: Principal, permission: Permission, on: SecurableObject, *, to: str) -> None:
        """Raise PermissionDenied unless the principal has the permission on the object. `to` is as for `Acl.require`."""
        self.acl(tx, on).require(principal, permission, to=to)

    def visible(self, tx: Tx, principal: Principal, kind: ObjectKind) -> Visible:
        """Which objects of the kind a list shows to the principal: those with at least the kind's lowest permission."""
        del tx
        return visible(principal, kind)
