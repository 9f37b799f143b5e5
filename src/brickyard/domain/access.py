"""Permissions: who may do what with which object, in the vocabulary of the Databricks permissions API."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """A user, as the holder of permissions."""

    user_name: str
    user_id: str
    is_admin: bool


class Permission(StrEnum):
    """What can be granted. Permission levels on objects are in capitals, workspace entitlements in lower case, as in the API."""

    CAN_USE = "CAN_USE"
    CAN_VIEW = "CAN_VIEW"
    CAN_READ = "CAN_READ"
    CAN_EDIT = "CAN_EDIT"
    CAN_ATTACH_TO = "CAN_ATTACH_TO"
    CAN_RESTART = "CAN_RESTART"
    CAN_MANAGE_RUN = "CAN_MANAGE_RUN"
    CAN_MANAGE = "CAN_MANAGE"
    READ = "READ"
    WRITE = "WRITE"
    READ_VOLUME = "READ_VOLUME"
    WRITE_VOLUME = "WRITE_VOLUME"
    CREATE_VOLUME = "CREATE_VOLUME"
    MANAGE = "MANAGE"
    ADMIN = "admin"  # cannot be granted: what only administrators may do with an object
    WORKSPACE_ACCESS = "workspace-access"
    ALLOW_CLUSTER_CREATE = "allow-cluster-create"
    ALLOW_INSTANCE_POOL_CREATE = "allow-instance-pool-create"


class ObjectKind(StrEnum):
    """The kinds of objects that have permissions."""

    WORKSPACE = "workspace"
    CLUSTER = "cluster"
    INSTANCE_POOL = "instance-pool"
    CLUSTER_POLICY = "cluster-policy"
    RUN = "run"
    DBFS_PATH = "dbfs-path"
    SECRET_SCOPE = "secret-scope"  # noqa: S105 - the name of a kind
    WORKSPACE_PATH = "workspace-path"  # a notebook, file or directory of /Workspace
    VOLUME_PATH = "volume-path"  # a file or directory of a volume
    VOLUME = "volume"
    SCHEMA = "schema"  # where volumes are
    TOKENS = "tokens"  # all personal access tokens of the caller


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
    ObjectKind.INSTANCE_POOL: (Permission.CAN_ATTACH_TO, Permission.CAN_MANAGE),
    ObjectKind.CLUSTER_POLICY: (Permission.CAN_USE, Permission.ADMIN),
    ObjectKind.RUN: (Permission.CAN_VIEW, Permission.CAN_MANAGE_RUN, Permission.CAN_MANAGE),
    ObjectKind.DBFS_PATH: (Permission.CAN_READ, Permission.CAN_EDIT, Permission.CAN_MANAGE),
    ObjectKind.SECRET_SCOPE: (Permission.READ, Permission.WRITE, Permission.MANAGE),
    ObjectKind.WORKSPACE_PATH: (Permission.CAN_READ, Permission.CAN_EDIT, Permission.CAN_MANAGE),
    ObjectKind.VOLUME_PATH: (Permission.READ_VOLUME, Permission.WRITE_VOLUME),
    ObjectKind.VOLUME: (Permission.READ_VOLUME, Permission.WRITE_VOLUME, Permission.MANAGE),
    ObjectKind.SCHEMA: (Permission.CREATE_VOLUME,),
    ObjectKind.TOKENS: (Permission.CAN_USE,),
}


class SecurableObject(NamedTuple):
    """An object with permissions. `id` is "" where there is only one of its kind; `owner` is a user name or ""."""

    kind: ObjectKind
    id: str = ""
    owner: str = ""

    def __str__(self) -> str:
        return f"{self.kind.value.replace('-', ' ')} {self.id}".strip()


class Grant(NamedTuple):
    """A permission of a user or of a group on one object."""

    principal: str
    permission: Permission


class Visible(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects of a kind a list shows: all of them, or only those of `owners`."""

    owners: frozenset[str] | None = None

    def shows(self, owner: str) -> bool:
        return self.owners is None or owner in self.owners


EVERYTHING = Visible()
