"""Authorisation: services check here, within the transaction, before they do anything for a principal.

The decision uses what is read in the same transaction that reads or changes the object, so no grant can be revoked in between.
The decision itself is pure (`plan.access`). Each operation declares the permissions it needs (`api.registry.Need`); a test
compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from brickyard.domain.access import ObjectKind, Permission, Principal, SecurableObject, Visible
from brickyard.plan.access import Acl, level, visible
from brickyard.store.tx import Tx

T = TypeVar("T")
_ONCE = frozenset({ObjectKind.WORKSPACE, ObjectKind.DBFS_PATH, ObjectKind.VOLUME_PATH, ObjectKind.CATALOG})  # never granted

_WITHIN = {  # where grants are recorded, besides the object's own kind
    ObjectKind.RUN: (ObjectKind.JOB,),
    ObjectKind.WAREHOUSE: (ObjectKind.CLUSTER,),
}


class Authorizer:
    """Decides who may do what."""

    def acl(self, tx: Tx, on: SecurableObject, *, of: Principal | None = None) -> Acl:
        """The object's ACL: its owner, what was granted on it and on what contains it. `of`: only this principal is to be judged
        by it; for an administrator nothing needs to be read."""
        if on.kind in _ONCE or (of is not None and of.is_admin):
            return Acl(on)
        return Acl(on, tx.grants.of(on.places[0])) if not on.within else self.acls(tx, [on])[0]

    def acls(self, tx: Tx, objects: Sequence[SecurableObject]) -> list[Acl]:
        """The ACLs of many objects, in order."""
        found = tx.grants.of_many(place for on in objects if on.kind not in _ONCE for place in on.places)
        return [Acl(on, tuple(grant for place in on.places for grant in found.get(place, ()))) for on in objects]

    def require(self, tx: Tx, principal: Principal, permission: Permission, on: SecurableObject, *, to: str) -> None:
        """Raises PermissionDenied unless the principal has the permission on the object. `to`: see `Acl.require`."""
        self.acl(tx, on, of=principal).require(principal, permission, to=to)

    def visible(self, tx: Tx, principal: Principal, kind: ObjectKind) -> Visible:
        """The objects of the kind that a list shows to the principal: those on which it has at least the lowest permission."""
        del tx, kind
        return visible(principal)

    def shown(
        self, tx: Tx, principal: Principal, kind: ObjectKind, rows: Iterable[T], of: Callable[[T], SecurableObject]
    ) -> list[T]:
        """Those of the rows, objects of the kind, that a list shows to the principal."""
        which = self.visible(tx, principal, kind)
        if which.everything:
            return list(rows)
        granted = tx.grants.held((kind, *_WITHIN.get(kind, ())), which.holders)
        return [row for row in rows if not granted.isdisjoint((on := of(row)).places) or level(principal, on) > 0]
