"""Permissions: who may do what with which object, in the vocabulary of the Databricks permissions API."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """An active identity (a person or a service principal), as the holder of permissions.

    `group_ids`: all groups that it is in, through other groups too. `entitlements`: its own and those of its groups.
    """

    user_name: str
    user_id: str
    is_admin: bool
    group_ids: frozenset[str] = frozenset()
    entitlements: frozenset[str] = frozenset()


class Permission(StrEnum):
    """What can be granted. Permission levels on objects are in capitals, workspace entitlements in lower case, as in the API."""

    CAN_USE = "CAN_USE"
    CAN_VIEW = "CAN_VIEW"
    CAN_READ = "CAN_READ"
    CAN_RUN = "CAN_RUN"
    CAN_EDIT = "CAN_EDIT"
    CAN_ATTACH_TO = "CAN_ATTACH_TO"
    CAN_RESTART = "CAN_RESTART"
    CAN_MANAGE_RUN = "CAN_MANAGE_RUN"
    CAN_MONITOR = "CAN_MONITOR"
    CAN_MANAGE = "CAN_MANAGE"
    READ = "READ"
    WRITE = "WRITE"
    READ_VOLUME = "READ_VOLUME"
    WRITE_VOLUME = "WRITE_VOLUME"
    CREATE_VOLUME = "CREATE_VOLUME"
    USE_SCHEMA = "USE_SCHEMA"
    USE_CATALOG = "USE_CATALOG"
    CREATE_SCHEMA = "CREATE_SCHEMA"
    MANAGE = "MANAGE"
    ADMIN = "admin"  # cannot be granted: what only administrators may do with an object
    WORKSPACE_ACCESS = "workspace-access"
    ALLOW_CLUSTER_CREATE = "allow-cluster-create"
    ALLOW_INSTANCE_POOL_CREATE = "allow-instance-pool-create"


class ObjectKind(StrEnum):
    """The kinds of objects that have permissions."""

    WORKSPACE = "workspace"
    CLUSTER = "cluster"
    WAREHOUSE = "warehouse"  # a cluster that is a SQL warehouse
    INSTANCE_POOL = "instance-pool"
    CLUSTER_POLICY = "cluster-policy"
    JOB = "job"  # a submitted run has one of its own, by which the permissions API knows the run
    RUN = "run"
    QUERY = "query"  # a saved query
    DBFS_PATH = "dbfs-path"
    SECRET_SCOPE = "secret-scope"  # noqa: S105 - the name of a kind
    WORKSPACE_PATH = "workspace-path"  # a notebook, file or directory of /Workspace
    VOLUME_PATH = "volume-path"  # a file or directory of a volume
    VOLUME = "volume"
    SCHEMA = "schema"  # where tables and volumes are
    CATALOG = "catalog"  # where schemas are
    TOKENS = "tokens"  # all personal access tokens of the caller
    PASSWORDS = "passwords"


# The permissions on each kind, lowest first. Each level on an object includes the ones before it; seeing an object takes the
# lowest.
PERMISSIONS: Mapping[ObjectKind, tuple[Permission, ...]] = {
    ObjectKind.WORKSPACE: (
        Permission.WORKSPACE_ACCESS,
        Permission.ALLOW_CLUSTER_CREATE,
        Permission.ALLOW_INSTANCE_POOL_CREATE,
        Permission.ADMIN,
    ),
    ObjectKind.CLUSTER: (Permission.CAN_ATTACH_TO, Permission.CAN_RESTART, Permission.CAN_MANAGE, Permission.ADMIN),
    ObjectKind.WAREHOUSE: (
        Permission.CAN_VIEW,
        Permission.CAN_USE,
        Permission.CAN_MONITOR,
        Permission.CAN_MANAGE,
        Permission.ADMIN,
    ),
    ObjectKind.INSTANCE_POOL: (Permission.CAN_ATTACH_TO, Permission.CAN_MANAGE),
    ObjectKind.CLUSTER_POLICY: (Permission.CAN_USE, Permission.ADMIN),
    ObjectKind.JOB: (Permission.CAN_VIEW, Permission.CAN_MANAGE_RUN, Permission.CAN_MANAGE),
    ObjectKind.RUN: (Permission.CAN_VIEW, Permission.CAN_MANAGE_RUN, Permission.CAN_MANAGE),
    ObjectKind.QUERY: (Permission.CAN_READ, Permission.CAN_RUN, Permission.CAN_EDIT, Permission.CAN_MANAGE),
    ObjectKind.DBFS_PATH: (Permission.CAN_READ, Permission.CAN_EDIT, Permission.CAN_MANAGE),
    ObjectKind.SECRET_SCOPE: (Permission.READ, Permission.WRITE, Permission.MANAGE),
    ObjectKind.WORKSPACE_PATH: (Permission.CAN_READ, Permission.CAN_RUN, Permission.CAN_EDIT, Permission.CAN_MANAGE),
    ObjectKind.VOLUME_PATH: (Permission.READ_VOLUME, Permission.WRITE_VOLUME),
    ObjectKind.VOLUME: (Permission.READ_VOLUME, Permission.WRITE_VOLUME, Permission.MANAGE),
    ObjectKind.SCHEMA: (Permission.USE_SCHEMA, Permission.CREATE_VOLUME, Permission.MANAGE),
    ObjectKind.CATALOG: (Permission.USE_CATALOG, Permission.CREATE_SCHEMA, Permission.ADMIN),
    ObjectKind.TOKENS: (Permission.CAN_USE, Permission.ADMIN),
    ObjectKind.PASSWORDS: (Permission.CAN_USE, Permission.ADMIN),
}


# What a permission on a cluster takes where the cluster is a SQL warehouse: its users' statements start it.
_ON_WAREHOUSES = {Permission.CAN_ATTACH_TO: Permission.CAN_USE, Permission.CAN_RESTART: Permission.CAN_USE}


class Place(NamedTuple):
    """What grants are recorded for: an object by its kind and id."""

    kind: ObjectKind
    id: str


class SecurableObject(NamedTuple):
    """An object with permissions. `id` is "" where there is only one of its kind; `owner` is a user name or "". A permission on
    what contains the object, in `within`, is one on the object as well."""

    kind: ObjectKind
    id: str = ""
    owner: str = ""
    within: tuple[Place, ...] = ()

    @property
    def places(self) -> tuple[Place, ...]:
        """Where a permission on the object may have been granted."""
        kind = ObjectKind.CLUSTER if self.kind is ObjectKind.WAREHOUSE else self.kind
        return (Place(kind, self.id), *self.within)

    def taking(self, permission: Permission) -> Permission:
        """The permission on this kind of object that stands for the given one."""
        return _ON_WAREHOUSES.get(permission, permission) if self.kind is ObjectKind.WAREHOUSE else permission

    def __str__(self) -> str:
        return f"{self.kind.value.replace('-', ' ')} {self.id}".strip()


class Grant(NamedTuple):
    """A permission of a principal on one object. `principal` is the id of an identity or of a group."""

    principal: str
    permission: Permission


class Visible(NamedTuple):
    """Which objects of a kind a list shows: everything, or what `owner` owns and what was granted to one of `holders`."""

    everything: bool = False
    owner: str = ""
    holders: frozenset[str] = frozenset()


EVERYTHING = Visible(everything=True)


class AccessControlRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Gives a level to one user, group or service principal (by its application id)."""

    user_name: str | None = None
    group_name: str | None = None
    service_principal_name: str | None = None
    permission_level: str
