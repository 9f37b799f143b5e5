"""Who a grant names: clients write names, grants hold ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from brickyard.domain.identity import IdentityKind
from brickyard.store.tx import Tx


class Named(NamedTuple):
    """A holder of grants. Exactly one of the three names is set: clients tell the kinds apart by it."""

    user_name: str | None = None
    group_name: str | None = None
    service_principal_name: str | None = None
    display_name: str | None = None

    @property
    def name(self) -> str:
        return self.user_name or self.group_name or self.service_principal_name or ""


def user_holder(tx: Tx, user_name: str) -> str | None:
    """What grants hold for a user; None if there is no such user. A service principal's application id is its user name, too:
    Terraform names its caller so."""
    return _identity(tx, user_name, *IdentityKind)


def service_principal_holder(tx: Tx, application_id: str) -> str | None:
    """What grants hold for a service principal; None if there is no such one."""
    return _identity(tx, application_id, IdentityKind.SERVICE_PRINCIPAL)


def group_holder(tx: Tx, group_name: str) -> str | None:
    """What grants hold for a group; None if there is no such group."""
    group = tx.groups.by_name(group_name)
    return None if group is None else group.group_id


def named(tx: Tx, holders: Iterable[str]) -> dict[str, Named]:
    """The names of holders. One that no longer exists is left out."""
    found: dict[str, Named] = {}
    for holder in set(holders):
        if (group := tx.groups.get(holder)) is not None:
            found[holder] = Named(group_name=group.display_name)
        elif (user := tx.users.by_id(holder)) is not None:
            found[holder] = (
                Named(user_name=user.user_name, display_name=user.display_name or None)
                if user.kind is IdentityKind.USER
                else Named(service_principal_name=user.user_name, display_name=user.display_name or None)
            )
    return found


def _identity(tx: Tx, name: str, *kinds: IdentityKind) -> str | None:
    user = tx.users.get(name)
    return user.user_id if user is not None and user.kind in kinds else None
