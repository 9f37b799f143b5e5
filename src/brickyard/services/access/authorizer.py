"""Authorisation: services check here, within the transaction, before they do anything for a principal.

The decision uses what is read in the same transaction that reads or changes the object, so no grant can be revoked in between.
The decision itself is pure (`plan.access`). Each operation declares the permissions it needs (`api.registry.Need`); a test
compares the two.
"""

from __future__ import annotations

import msgspec

from brickyard.domain.access import Grant, ObjectKind, Permission, Principal, SecurableObject, Visible
from brickyard.domain.errors import PermissionDenied
from brickyard.plan.access import BY_GRANT, access_refusal, visible
from brickyard.store.tx import Tx


class Acl(msgspec.Struct, frozen=True):
    """Everything that decides about access to one object, as read in a transaction. It may be cached together with what was read
    of the object, and for as long."""

    on: SecurableObject
    grants: tuple[Grant, ...] = ()

    def require(self, principal: Principal, permission: Permission, *, to: str) -> None:
        """Raises PermissionDenied unless the principal has the permission. `to` completes "may not ... cluster X"."""
        if why := access_refusal(principal, permission, self.on, to=to, grants=self.grants):
            raise PermissionDenied(why)


class Authorizer:
    """Decides who may do what."""

    def acl(self, tx: Tx, on: SecurableObject) -> Acl:
        """The object's ACL. Who owns an object is part of the object; only secret scopes have grants so far."""
        return Acl(on, tx.secrets.grants(on.id) if on.kind in BY_GRANT else ())

    def require(self, tx: Tx, principal: Principal, permission: Permission, on: SecurableObject, *, to: str) -> None:
        """Raises PermissionDenied unless the principal has the permission on the object. `to`: see `Acl.require`."""
        self.acl(tx, on).require(principal, permission, to=to)

    def visible(self, tx: Tx, principal: Principal, kind: ObjectKind) -> Visible:
        """The objects of the kind that a list shows to the principal: those on which it has at least the lowest permission."""
        del tx
        return visible(principal, kind)
