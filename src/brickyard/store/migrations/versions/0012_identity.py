"""Identities, groups and their members: administrators become members of the group `admins`."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_ADMINS, _USERS = "1001", "1002"
_EVERYONE = ["workspace-access", "databricks-sql-access"]
_ALL = ["allow-cluster-create", "allow-instance-pool-create", *_EVERYONE]


def upgrade() -> None:
    old = op.get_bind().execute(sa.text("SELECT user_name, user_id, display_name, is_admin FROM users ORDER BY user_name"))
    kept = _merged([dict(row) for row in old.mappings()])
    op.drop_table("users")
    users, groups, members = _create()
    docs = [
        {"user_name": user["user_name"], "user_id": user["user_id"], "display_name": user["display_name"]}
        for user in kept.values()
    ]
    rows = [
        {"user_id": doc["user_id"], "folded": folded, "kind": "user", "active": True, "external_id": "", "created_ms": 0}
        | {"doc": json.dumps(doc)}
        for folded, doc in zip(kept, docs, strict=True)
    ]
    op.bulk_insert(users, rows)
    built_in = ((_ADMINS, "admins", _ALL), (_USERS, "users", _EVERYONE))
    op.bulk_insert(
        groups,
        [
            {"group_id": group_id, "folded": name, "external_id": "", "created_ms": 0}
            | {"doc": json.dumps({"group_id": group_id, "display_name": name, "entitlements": entitlements})}
            for group_id, name, entitlements in built_in
        ],
    )
    admins = [{"group_id": _ADMINS, "member_id": user["user_id"]} for user in kept.values() if user["is_admin"]]
    op.bulk_insert(members, admins)


def _create() -> tuple[sa.Table, sa.Table, sa.Table]:
    users = op.create_table(
        "users",
        sa.Column("user_id", sa.String(32), primary_key=True),
        sa.Column("folded", sa.Text, nullable=False, unique=True),
        sa.Column("kind", sa.String(24), nullable=False),
        sa.Column("active", sa.Boolean, nullable=False),
        sa.Column("external_id", sa.Text, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_index("users_listed", "users", ["kind", "created_ms", "user_id"])
    op.create_index("users_external", "users", ["external_id"])
    groups = op.create_table(
        "groups",
        sa.Column("group_id", sa.String(32), primary_key=True),
        sa.Column("folded", sa.Text, nullable=False, unique=True),
        sa.Column("external_id", sa.Text, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_index("groups_listed", "groups", ["created_ms", "group_id"])
    op.create_index("groups_external", "groups", ["external_id"])
    members = op.create_table(
        "members",
        sa.Column("group_id", sa.String(32), primary_key=True),
        sa.Column("member_id", sa.String(32), primary_key=True),
    )
    op.create_index("members_member", "members", ["member_id"])
    return users, groups, members


def _merged(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The users by folded name. Names that differ only in case become one user, with the tokens and rights of all of them."""
    kept: dict[str, dict[str, Any]] = {}
    for row in rows:
        first = kept.setdefault(row["user_name"].lower(), row)
        if first is not row:
            first["is_admin"] = first["is_admin"] or row["is_admin"]
            names = {"old": row["user_name"], "new": first["user_name"]}
            op.get_bind().execute(sa.text("UPDATE tokens SET user_name = :new WHERE user_name = :old"), names)
    return kept
