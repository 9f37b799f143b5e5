"""Who may do what with which object: the vocabulary of permissions, as the Databricks permissions API has it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who can be given permissions: a user."""

    user_name: str
    user_id: str
    is_admin: bool


class Permission(StrEnum):
    """What can be granted. Levels of objects are in capitals, entitlements to the workspace in small letters, as in the API."""

    CAN_USE = "CAN_USE"
    CAN_VIEW = "CAN_VIEW"
    CAN_READ = "CAN_READ"
    CAN_EDIT = "CAN_EDIT"
    CAN_ATTACH_TO = "CAN_ATTACH_TO"
    CAN_RESTART = "CAN_RESTART"
    CAN_MANAGE_RUN = "CAN_MANAGE_RUN"
    CAN_MANAGE = "CAN_MANAGE"
    ADMIN = "admin"  # cannot be granted: what administrators alone may do with an object
    WORKSPACE_ACCESS = "workspace-access"
    ALLOW_CLUSTER_CREATE = "allow-cluster-create"
    ALLOW_INSTANCE_POOL_CREATE = "allow-instance-pool-create"


class ObjectKind(StrEnum):
    """Kinds of objects that permissions are about."""

    WORKSPACE = "workspace"
    CLUSTER = "cluster"
    INSTANCE_POOL = "instance-pool"
    RUN = "run"
    DBFS_PATH = "dbfs-path"
    TOKENS = "tokens"  # all personal access tokens of the caller's


# What can be asked for of each kind, the lowest first: each level of an object includes those before it. To see an object, the
# lowest is needed.
PERMISSIONS: Mapping[ObjectKind, tuple[Permission, ...]] = {
    ObjectKind.WORKSPACE: (
        Permission.WORKSPACE_ACCESS,
        Permission.ALLOW_CLUSTER_CREATE,
        Permission.ALLOW_INSTANCE_POOL_CREATE,
    ),
    ObjectKind.CLUSTER: (Permission.CAN_ATTACH_TO, Permission.CAN_RESTART, Permission.CAN_MANAGE, Permission.ADMIN),
    ObjectKind.INSTANCE_POOL: (Permission.CAN_ATTACH_TO, Permission.CAN_MANAGE),
    ObjectKind.RUN: (Permission.CAN_VIEW, Permission.CAN_MANAGE_RUN, Permission.CAN_MANAGE),
    ObjectKind.DBFS_PATH: (Permission.CAN_READ, Permission.CAN_EDIT, Permission.CAN_MANAGE),
    ObjectKind.TOKENS: (Permission.CAN_USE,),
}


class SecurableObject(NamedTuple):
    """An object that permissions are about. `id` is "" where there is only one of its kind; `owner` is a user's name, or ""."""

    kind: ObjectKind
    id: str = ""
    owner: str = ""

    def __str__(self) -> str:
        return f"{self.kind.value.replace('-', ' ')} {self.id}".strip()


class Visible(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects of a kind a list shows: all of them, or, with `owners`, those of these users."""

    owners: frozenset[str] | None = None

    def shows(self, owner: str) -> bool:
        return self.owners is None or owner in self.owners


EVERYTHING = Visible()
