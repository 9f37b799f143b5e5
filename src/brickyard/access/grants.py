"""What requests ask to be granted, for the permissions API and for runs, which are made with their permissions."""

from __future__ import annotations

from collections.abc import Sequence

from brickyard.access.holders import group_holder, service_principal_holder, user_holder
from brickyard.domain.access import AccessControlRequest, Grant, ObjectKind, SecurableObject
from brickyard.domain.errors import InvalidParameterValue, ResourceDoesNotExist
from brickyard.plan.permissions import OBJECT_TYPES, Wanted, changed_grants
from brickyard.store.tx import Tx

_SHOWN = 140  # characters of the client's value that a message repeats


def grant_on_job(tx: Tx, on: SecurableObject, acl: Sequence[AccessControlRequest]) -> None:
    """Grants what the request for a new job or run asks for. Raises ApiError."""
    of = next(each for each in OBJECT_TYPES if each.kind is ObjectKind.JOB)
    wanted = [wanted_grant(tx, each) for each in acl]
    tx.grants.put(on.places[0], changed_grants(of, (), wanted, owner=owner_of(tx, on), replace=True))


def let_owner_see_runs(tx: Tx, on: SecurableObject) -> None:
    """Grants a job's owner what they may do with its runs, which belong to those whose rights they have."""
    of = next(each for each in OBJECT_TYPES if each.kind is ObjectKind.JOB)
    place, owner = on.places[0], owner_of(tx, on)
    if owner:
        others = (each for each in tx.grants.of(place) if each.principal != owner)
        tx.grants.put(place, [*others, Grant(owner, of.levels[-1])])


def wanted_grant(tx: Tx, asked: AccessControlRequest) -> Wanted:
    """A grant that a request names. Raises InvalidParameterValue and ResourceDoesNotExist."""
    given = [
        (kind, name, find)
        for kind, name, find in (
            ("UserName", asked.user_name, user_holder),
            ("GroupName", asked.group_name, group_holder),
            ("ServicePrincipalName", asked.service_principal_name, service_principal_holder),
        )
        if name
    ]
    if len(given) != 1:
        raise InvalidParameterValue(
            "access_control_list: each entry names exactly one of user_name, group_name and service_principal_name."
        )
    kind, name, find = given[0]
    holder = find(tx, name)
    if holder is None:
        raise ResourceDoesNotExist(f"Principal: {kind}({name[:_SHOWN]}) does not exist.")
    return Wanted(holder, asked.permission_level, name[:_SHOWN])


def owner_of(tx: Tx, on: SecurableObject) -> str:
    """The holder of the object's owner, "" if there is none."""
    owner = tx.users.get(on.owner) if on.owner else None
    return "" if owner is None else owner.user_id
