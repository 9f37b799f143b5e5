"""The permissions API's view of grants: what an access control list shows, and what one that is sent means. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from brickyard.domain.access import PERMISSIONS, Grant, ObjectKind, Permission, Place, SecurableObject
from brickyard.domain.errors import InvalidParameterValue, ResourceLimitExceeded
from brickyard.domain.identity import ADMINS_ID, USERS_ID
from brickyard.plan.access import for_everybody

IS_OWNER = "IS_OWNER"  # who created a job or warehouse, or submitted a run
MAX_GRANTS = 1_000  # on one object
_SHOWN = 60


class ObjectType(NamedTuple):
    """A kind of object as the permissions API knows it: its name in paths, and in answers."""

    collection: str
    object_type: str
    kind: ObjectKind
    aliases: tuple[str, ...] = ()  # of the collection, in paths

    @property
    def levels(self) -> tuple[Permission, ...]:
        """What can be granted, lowest first."""
        return tuple(each for each in PERMISSIONS[self.kind] if each is not Permission.ADMIN)

    @property
    def noun(self) -> str:
        """The kind's name in sentences."""
        return self.kind.value.replace("-", " ")

    @property
    def is_single(self) -> bool:
        """Whether there is one such object, which paths know by the name of its type. Its list inherits from nothing."""
        return self.kind in (ObjectKind.TOKENS, ObjectKind.PASSWORDS)

    @property
    def of_admins(self) -> Permission:
        """What administrators are shown to have."""
        return Permission.CAN_MANAGE if self.kind is ObjectKind.TOKENS else self.levels[-1]


OBJECT_TYPES = (
    ObjectType("clusters", "cluster", ObjectKind.CLUSTER),
    ObjectType("sql/warehouses", "warehouses", ObjectKind.WAREHOUSE, aliases=("warehouses", "sql/endpoints")),
    ObjectType("instance-pools", "instance-pool", ObjectKind.INSTANCE_POOL),
    ObjectType("cluster-policies", "cluster-policy", ObjectKind.CLUSTER_POLICY),
    ObjectType("jobs", "job", ObjectKind.JOB),
    ObjectType("sql/queries", "query", ObjectKind.QUERY, aliases=("queries",)),
    ObjectType("notebooks", "notebook", ObjectKind.WORKSPACE_PATH),
    ObjectType("files", "file", ObjectKind.WORKSPACE_PATH),
    ObjectType("directories", "directory", ObjectKind.WORKSPACE_PATH),
    ObjectType("authorization", "tokens", ObjectKind.TOKENS),
    ObjectType("authorization", "passwords", ObjectKind.PASSWORDS),
)

_OWNED = (ObjectKind.JOB, ObjectKind.WAREHOUSE)  # kinds whose owner has a level of its own
_DESCRIPTIONS: Mapping[tuple[ObjectKind, str], str] = {
    (ObjectKind.CLUSTER, "CAN_ATTACH_TO"): "Can attach notebooks and Spark Connect to the cluster, run code and see its Spark UI",
    (ObjectKind.CLUSTER, "CAN_RESTART"): "Can also start, restart and terminate the cluster",
    (ObjectKind.CLUSTER, "CAN_MANAGE"): "Can also edit, resize and delete the cluster, read its logs and change permissions",
    (ObjectKind.WAREHOUSE, "CAN_VIEW"): "Can see the warehouse",
    (ObjectKind.WAREHOUSE, "CAN_USE"): "Can also run statements on the warehouse, which starts it",
    (ObjectKind.WAREHOUSE, "CAN_MONITOR"): "Can also see everybody's statements on the warehouse",
    (ObjectKind.WAREHOUSE, IS_OWNER): "Has created the warehouse",
    (ObjectKind.WAREHOUSE, "CAN_MANAGE"): "Can also edit, stop and delete the warehouse and change permissions",
    (ObjectKind.INSTANCE_POOL, "CAN_ATTACH_TO"): "Can create clusters from the pool",
    (ObjectKind.INSTANCE_POOL, "CAN_MANAGE"): "Can also edit and delete the pool and change permissions",
    (ObjectKind.CLUSTER_POLICY, "CAN_USE"): "Can create clusters under the policy",
    (ObjectKind.JOB, "CAN_VIEW"): "Can see the job, its runs and their output",
    (ObjectKind.JOB, "CAN_MANAGE_RUN"): "Can also run the job and cancel its runs",
    (ObjectKind.JOB, IS_OWNER): "Has created the job or submitted the run",
    (ObjectKind.JOB, "CAN_MANAGE"): "Can also change and delete the job, delete its runs and change permissions",
    (ObjectKind.QUERY, "CAN_READ"): "Can see the query",
    (ObjectKind.QUERY, "CAN_RUN"): "Can also run the query, in jobs of their own",
    (ObjectKind.QUERY, "CAN_EDIT"): "Can also change the query",
    (ObjectKind.QUERY, "CAN_MANAGE"): "Can also delete the query and change permissions",
    (ObjectKind.WORKSPACE_PATH, "CAN_READ"): "Can read",
    (ObjectKind.WORKSPACE_PATH, "CAN_RUN"): "Can also run",
    (ObjectKind.WORKSPACE_PATH, "CAN_EDIT"): "Can also write",
    (ObjectKind.WORKSPACE_PATH, "CAN_MANAGE"): "Can also delete and change permissions",
    (ObjectKind.TOKENS, "CAN_USE"): "Can create and use personal access tokens",
    (ObjectKind.PASSWORDS, "CAN_USE"): "Can log in with a password: nobody has one here",
}


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """A level that can be granted."""

    permission_level: str
    description: str


class Entry(NamedTuple):
    """One permission of one holder. `inherited_from` is "" for one on the object itself."""

    holder: str
    level: str
    inherited_from: str = ""


class Wanted(NamedTuple):
    """A line of an access control list that was sent. `name` is for messages."""

    holder: str
    level: str
    name: str


def levels(of: ObjectType) -> list[Level]:
    """What can be granted, with a description, lowest first."""
    names = [each.value for each in of.levels]
    if of.kind in _OWNED:
        names.insert(-1, IS_OWNER)
    return [Level(permission_level=name, description=_DESCRIPTIONS[of.kind, name]) for name in names]


def owner_level(of: ObjectType) -> str:
    """What an object's owner is shown to have."""
    return IS_OWNER if of.kind in _OWNED else of.levels[-1].value


def entries(
    of: ObjectType,
    on: SecurableObject,
    grants: Mapping[Place, Sequence[Grant]],
    *,
    owner: Entry,
    directories: Mapping[Place, str],
) -> list[Entry]:
    """Who has what on the object, the highest level of each from each source: the owner, grants, what is inherited,
    administrators. The owner's holder is "" if it no longer exists; `directories` are the names of containing directories in
    answers."""
    found = [owner] if owner.holder else []
    direct = grants.get(on.places[0], ())
    found += [Entry(each.principal, each.permission.value) for each in direct if each.principal != owner.holder]
    for place in on.within:
        inherited_from = directories.get(place, "")
        found += [Entry(each.principal, each.permission.value, inherited_from) for each in grants.get(place, ())]
    if (open_to_all := for_everybody(on)) is not None:
        found.append(Entry(USERS_ID, open_to_all.value, f"/{of.collection}/"))
    if of.kind is not ObjectKind.PASSWORDS or not direct:  # those of passwords can be taken from administrators
        found.append(Entry(ADMINS_ID, of.of_admins.value, "" if of.is_single else f"/{of.collection}/"))
    return _highest(of, found)


def _highest(of: ObjectType, found: Iterable[Entry]) -> list[Entry]:
    """For each holder at most one level on the object itself and one that is inherited."""
    best: dict[tuple[str, bool], Entry] = {}
    for each in found:
        key = (each.holder, bool(each.inherited_from))
        if key not in best or _height(of, each.level) > _height(of, best[key].level):
            best[key] = each
    return list(best.values())


def _height(of: ObjectType, level: str) -> int:
    names = [each.permission_level for each in levels(of)]
    return names.index(level) if level in names else len(names)


def changed_grants(
    of: ObjectType, before: Iterable[Grant], wanted: Iterable[Wanted], *, owner: str, replace: bool
) -> list[Grant]:
    """The grants on an object after a list was sent: in place of all of them, or of those of the principals it names. Of several
    levels for one principal the last one counts (source: Databricks' CLI, acceptance/bundle/resources/permissions/factcheck).
    Raises InvalidParameterValue and ResourceLimitExceeded."""
    asked: dict[str, Permission] = {}
    for each in wanted:
        if (level := _level(of, each, owner)) is not None:
            asked[each.holder] = level
    kept = {} if replace else {grant.principal: grant.permission for grant in before}
    after = [Grant(holder, level) for holder, level in {**kept, **asked}.items()]
    if len(after) > MAX_GRANTS:
        raise ResourceLimitExceeded(
            f"access_control_list would have {len(after)} entries; at most {MAX_GRANTS} are allowed. Grant permissions to groups."
        )
    return after


def _level(of: ObjectType, wanted: Wanted, owner: str) -> Permission | None:
    """The level to be granted; None for what the principal has on the object itself anyway. Administrators inherit theirs: a list
    that names them is kept, since clients that sent it look for it."""
    allowed = levels(of)
    names = [each.permission_level for each in allowed]
    level = wanted.level
    if of.kind is ObjectKind.QUERY and level == Permission.CAN_VIEW:
        level = Permission.CAN_READ.value  # clients of the earlier SQL permissions API call it so
    if wanted.holder == ADMINS_ID and of.kind is not ObjectKind.PASSWORDS:
        if level == of.of_admins.value:
            return None if of.is_single else of.of_admins
        raise InvalidParameterValue(
            f"access_control_list: group admins has {of.of_admins.value} on every {of.object_type}, which cannot be changed. "
            "Leave it out."
        )
    if level not in names:
        raise InvalidParameterValue(
            f"access_control_list: permission_level {level[:_SHOWN]!r} is not defined for {of.object_type}. Use one of: "
            f"{', '.join(names)}."
        )
    if wanted.holder == owner:
        if level in (IS_OWNER, of.levels[-1].value):
            return None
        raise InvalidParameterValue(
            f"access_control_list: {wanted.name} owns the {of.object_type} and keeps {of.levels[-1].value}. Leave it out, or "
            "give the object to somebody else first."
        )
    if level == IS_OWNER:
        raise InvalidParameterValue(
            f"access_control_list: {wanted.name} cannot become the owner: a {of.noun} belongs to who made it. Use CAN_MANAGE."
        )
    return Permission(level)


def new_owner(of: ObjectType, wanted: Sequence[Wanted], *, owner: str) -> Wanted | None:
    """The line that makes somebody else the owner of a job. Raises InvalidParameterValue."""
    named = {each.holder: each for each in wanted if each.level == IS_OWNER and of.kind is ObjectKind.JOB}
    if len(named) > 1:
        raise InvalidParameterValue(f"access_control_list: a {of.noun} has one owner, and IS_OWNER names {len(named)} of them.")
    return next((each for holder, each in named.items() if holder != owner), None)


def given_away(of: ObjectType, wanted: Sequence[Wanted], *, before: str, replace: bool) -> list[Wanted]:
    """The list that was sent, and the owner before: they can still manage the object, unless the list replaces all or names
    them."""
    if replace or not before or any(each.holder == before for each in wanted):
        return list(wanted)
    return [*wanted, Wanted(before, of.levels[-1].value, "the owner before")]
