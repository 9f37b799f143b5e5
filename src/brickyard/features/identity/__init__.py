"""Identities and groups as SCIM resources."""

from __future__ import annotations

from typing import NamedTuple

from brickyard.access import Authorizer
from brickyard.access.homes import Homes
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.identity import IdentityKind
from brickyard.features.identity.groups import GroupService
from brickyard.features.identity.identities import IdentityService
from brickyard.features.identity.listing import PAGE, Asked, Resource, Shown
from brickyard.features.identity.me import MeService
from brickyard.features.identity.namedgroups import NamedGroupService
from brickyard.store.store import Store

__all__ = [
    "PAGE",
    "Asked",
    "GroupService",
    "IdentityService",
    "IdentityServices",
    "MeService",
    "NamedGroupService",
    "Resource",
    "Shown",
]


class IdentityServices(NamedTuple):
    """All of them."""

    me: MeService
    users: IdentityService
    service_principals: IdentityService
    groups: GroupService
    named_groups: NamedGroupService

    @classmethod
    def build(cls, *, store: Store, clock: Clock, ids: Ids, authorizer: Authorizer, homes: Homes) -> IdentityServices:
        def of(kind: IdentityKind) -> IdentityService:
            return IdentityService(kind=kind, store=store, clock=clock, ids=ids, authorizer=authorizer, homes=homes)

        return cls(
            me=MeService(store=store, authorizer=authorizer),
            users=of(IdentityKind.USER),
            service_principals=of(IdentityKind.SERVICE_PRINCIPAL),
            groups=GroupService(store=store, clock=clock, ids=ids, authorizer=authorizer),
            named_groups=NamedGroupService(store=store, clock=clock, ids=ids, authorizer=authorizer),
        )
