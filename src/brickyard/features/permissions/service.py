"""The permissions API's calls: who may do what with one object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from brickyard.access import Authorizer
from brickyard.access.credentials import end_unusable
from brickyard.access.grants import owner_of, wanted_grant
from brickyard.access.holders import Named, named
from brickyard.access.objects import (
    HOMES,
    MAX_GRANTED_PATH,
    PASSWORDS,
    TOKENS,
    of_cluster,
    of_job,
    of_policy,
    of_pool,
    of_query,
    of_workspace_path,
    path_of,
)
from brickyard.clusters.missing import existing_cluster, existing_pool
from brickyard.clusters.policies import existing_policy
from brickyard.domain.access import AccessControlRequest, Grant, ObjectKind, Permission, Place, SecurableObject
from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidParameterValue, ResourceDoesNotExist
from brickyard.plan.permissions import (
    Entry,
    Level,
    ObjectType,
    Wanted,
    changed_grants,
    entries,
    given_away,
    levels,
    new_owner,
    owner_level,
)
from brickyard.store.store import Store
from brickyard.store.tx import Tx

_SHOWN = 140  # characters of the client's value that a message repeats


class PermissionView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    permission_level: str
    inherited: bool
    inherited_from_object: list[str] | None = None


class AccessControlResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    user_name: str | None = None
    group_name: str | None = None
    service_principal_name: str | None = None
    display_name: str | None = None
    all_permissions: list[PermissionView]


class ObjectPermissions(msgspec.Struct, frozen=True, kw_only=True):
    object_id: str
    object_type: str
    access_control_list: list[AccessControlResponse]


class _Target(msgspec.Struct, frozen=True, kw_only=True):
    """An object, its name in answers, and the names of the directories that it is in. `owned_from`: the directory whose owner
    owns it; "" if it has an owner itself."""

    on: SecurableObject
    name: str
    directories: Mapping[Place, str] = {}
    owned_from: str = ""


class WorkspaceObject(Protocol):
    """A notebook, file or directory."""

    @property
    def kind(self) -> str:
        """DIRECTORY, NOTEBOOK or FILE."""
        ...

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of its path, from the root down."""
        ...


class WorkspaceObjects(Protocol):
    """The workspace's objects and their ids. Implemented by `WorkspaceService`."""

    async def find(self, object_id: int) -> WorkspaceObject | None:
        """The object with this id; None if there is none. Checks no permission."""
        ...

    def id_of(self, parts: tuple[str, ...]) -> int:
        """The id of what is at a path, whether it exists or not."""
        ...


class Owners(Protocol):
    """The owners of jobs. Implemented by `features.jobs.owners.JobOwners`."""

    def give(self, tx: Tx, caller: Caller, job_id: int, user_name: str) -> bool:
        """Makes the user or service principal the owner of a job; False if it is a submitted run. Raises ApiError."""
        ...


class Queries(Protocol):
    """Saved queries. Implemented by `SavedQueryService`."""

    def owner(self, tx: Tx, query_id: str) -> str | None:
        """Who owns the query; None if there is none. Checks no permission."""
        ...


class PermissionService:
    """One per server. Methods raise ApiError. `id` is the object's, as its API gives it; of tokens and passwords, the
    name of their type."""

    def __init__(
        self, *, store: Store, authorizer: Authorizer, workspace: WorkspaceObjects, owners: Owners, queries: Queries
    ) -> None:
        self._store = store
        self._authorizer = authorizer
        self._workspace = workspace
        self._owners = owners
        self._queries = queries

    async def get(self, caller: Caller, of: ObjectType, id: str) -> ObjectPermissions:
        """Who has which permission on an object. Anybody who can see the object may ask."""
        parts = await self._parts(of, id)

        def work(tx: Tx) -> ObjectPermissions:
            target = self._find(tx, of, id, parts)
            self._authorizer.require(tx, caller, sees(of), target.on, to="see the permissions of")
            return _view(tx, of, target)

        return await self._store.read(work)

    async def levels(self, caller: Caller, of: ObjectType, id: str) -> list[Level]:
        """The levels that can be granted."""
        parts = await self._parts(of, id)

        def work(tx: Tx) -> list[Level]:
            on = self._find(tx, of, id, parts).on
            self._authorizer.require(tx, caller, sees(of), on, to="see the permission levels of")
            return levels(of)

        return await self._store.read(work)

    async def change(
        self, caller: Caller, of: ObjectType, id: str, acl: Sequence[AccessControlRequest], *, replace: bool
    ) -> ObjectPermissions:
        """Replaces what was granted on the object, or only what was granted to those that the list names."""
        parts = await self._parts(of, id)

        def work(tx: Tx) -> ObjectPermissions:
            place = self._find(tx, of, id, parts).on.places[0]
            tx.lock(f"grants/{place.kind}/{place.id}")  # two changes each see the other's, or come after it
            target = self._find(tx, of, id, parts)
            on = target.on
            self._authorizer.require(tx, caller, manages(of), on, to="change the permissions of")
            if len(on.id.encode()) > MAX_GRANTED_PATH:
                raise InvalidParameterValue(
                    f"The path has {len(on.id.encode())} bytes; permissions can be granted on paths of at most "
                    f"{MAX_GRANTED_PATH}. Grant them on a directory further up."
                )
            wanted, before = [wanted_grant(tx, each) for each in acl], tx.grants.of(place)
            owner = owner_of(tx, on)
            given = new_owner(of, wanted, owner=owner)
            if given is not None and self._gave(tx, caller, on, given):
                wanted = given_away(of, wanted, before=owner, replace=replace)
                owner, target = given.holder, self._find(tx, of, id, parts)
            grants = changed_grants(of, before, wanted, owner=owner, replace=replace)
            if of.kind is ObjectKind.JOB and (given is not None or any(each.principal == owner for each in before)):
                # Runs belong to whose rights they have: who owns the job by a transfer sees and manages them by this.
                grants = [*(each for each in grants if each.principal != owner), Grant(owner, of.levels[-1])]
            tx.grants.put(place, grants)
            if of.kind is ObjectKind.TOKENS:
                end_unusable(tx)
            return _view(tx, of, target)

        return await self._store.write(work)

    def _gave(self, tx: Tx, caller: Caller, on: SecurableObject, to: Wanted) -> bool:
        """Gives a job away; False if it cannot have another owner."""
        who = tx.users.by_id(to.holder)
        if who is None:
            raise InvalidParameterValue(f"access_control_list: {to.name} is a group, which cannot own a job.")
        return self._owners.give(tx, caller, int(on.id), who.user_name)

    async def _parts(self, of: ObjectType, id: str) -> tuple[str, ...]:
        """The path of a workspace object; of other kinds nothing. Raises ResourceDoesNotExist."""
        if of.kind is not ObjectKind.WORKSPACE_PATH:
            return ()
        found = await self._workspace.find(int(id)) if id.isascii() and id.isdigit() and len(id) <= 20 else None
        if found is None or found.kind.lower() != of.object_type:
            raise ResourceDoesNotExist(f"No {of.object_type} has the object_id {id[:_SHOWN]}. See workspace/get-status for ids.")
        return found.parts

    def _find(self, tx: Tx, of: ObjectType, id: str, parts: tuple[str, ...]) -> _Target:
        name = f"/{of.collection}/{id}"
        if of.kind in (ObjectKind.CLUSTER, ObjectKind.WAREHOUSE):
            try:
                on = of_cluster(existing_cluster(tx, id))
                if on.kind is not of.kind:
                    raise ResourceDoesNotExist(f"There is no {of.noun} {id[:_SHOWN]}.")
                return _Target(on=on, name=name)
            except InvalidParameterValue as error:  # no id of a cluster is a bad parameter here
                raise ResourceDoesNotExist(error.message) from error
        if of.kind is ObjectKind.INSTANCE_POOL:
            return _Target(on=of_pool(existing_pool(tx, id)), name=name)
        if of.kind is ObjectKind.CLUSTER_POLICY:
            return _Target(on=of_policy(existing_policy(tx, id)), name=name)
        if of.kind in (ObjectKind.JOB, ObjectKind.QUERY):
            return _Target(on=self._owned(tx, of, id), name=name)
        if of.is_single:
            return _Target(on=TOKENS if of.kind is ObjectKind.TOKENS else PASSWORDS, name=name)
        on = of_workspace_path(parts)
        above = {place: tuple(each for each in place.id.split("/") if each) for place in on.within}
        directories = {place: f"/directories/{self._workspace.id_of(names)}" for place, names in above.items()}
        home = Place(ObjectKind.WORKSPACE_PATH, path_of((HOMES, on.owner)))
        return _Target(on=on, name=name, directories=directories, owned_from=directories.get(home, ""))

    def _owned(self, tx: Tx, of: ObjectType, id: str) -> SecurableObject:
        """A job, run or query."""
        if of.kind is ObjectKind.QUERY:
            owner = self._queries.owner(tx, id)
        else:
            owner = tx.runs.owner_of_job(int(id)) if id.isascii() and id.isdigit() and len(id) <= 18 else None
        if owner is None:
            raise ResourceDoesNotExist(f"{of.noun.capitalize()} {id[:_SHOWN]} does not exist.")
        return of_query(id, owner) if of.kind is ObjectKind.QUERY else of_job(int(id), owner)


def sees(of: ObjectType) -> Permission:
    """What it takes to see an object's permissions."""
    return Permission.ADMIN if of.is_single else of.levels[0]


def manages(of: ObjectType) -> Permission:
    """What it takes to change them."""
    return of.levels[-1] if of.levels[-1] is Permission.CAN_MANAGE else Permission.ADMIN


def _view(tx: Tx, of: ObjectType, target: _Target) -> ObjectPermissions:
    grants: dict[Place, tuple[Grant, ...]] = tx.grants.of_many(target.on.places)
    owner = Entry(owner_of(tx, target.on), owner_level(of), target.owned_from)
    found = entries(of, target.on, grants, owner=owner, directories=target.directories)
    names = named(tx, (each.holder for each in found))
    shown: dict[Named, list[PermissionView]] = {}
    for each in found:
        if (who := names.get(each.holder)) is not None:
            above = [each.inherited_from] if each.inherited_from else None
            view = PermissionView(permission_level=each.level, inherited=above is not None, inherited_from_object=above)
            shown.setdefault(who, []).append(view)
    acl = [AccessControlResponse(**who._asdict(), all_permissions=views) for who, views in shown.items()]
    return ObjectPermissions(object_id=target.name, object_type=of.object_type, access_control_list=acl)
