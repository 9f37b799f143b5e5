"""Grants, those on secret scopes included; what lists need to start from them."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_BATCH = 500
_USERS, _ADMINS = "1002", "1001"
_LEVELS = ("READ", "WRITE", "MANAGE")
_PERSONAL_COMPUTE = "ADD93B79DAEA139A"  # services.policies: its policy, which everybody may use as in Databricks


def upgrade() -> None:
    grants = op.create_table(
        "grants",
        sa.Column("kind", sa.String(24), primary_key=True),
        sa.Column("object_id", sa.String(1024), primary_key=True),
        sa.Column("principal_id", sa.String(32), primary_key=True),
        sa.Column("permission", sa.String(24), nullable=False),
    )
    op.create_index("grants_principal", "grants", ["principal_id", "kind", "object_id"])
    op.bulk_insert(
        grants,
        [
            {"kind": kind, "object_id": id, "principal_id": _USERS, "permission": "CAN_USE"}
            for kind, id in (("tokens", ""), ("cluster-policy", _PERSONAL_COMPUTE))
        ],
    )
    op.bulk_insert(grants, _of_scopes(op.get_bind()))
    op.drop_table("secret_acls")
    op.create_index("clusters_creator_created", "clusters", ["creator", "created_ms", "cluster_id"])
    op.create_index("clusters_creator_name", "clusters", ["creator", "cluster_name", "cluster_id"])
    op.add_column("runs", sa.Column("creator", sa.Text, nullable=False, server_default=""))
    _fill_creators(op.get_bind())
    op.create_index("runs_creator", "runs", ["creator", "created_ms", "run_id"])


def _of_scopes(connection: sa.Connection) -> list[dict[str, str]]:
    """Scopes named their principals; grants hold ids. Of names that differ only in case the highest level counts."""
    known = {row.folded: row.user_id for row in connection.execute(sa.text("SELECT folded, user_id FROM users"))}
    holders = {"users": _USERS, "admins": _ADMINS} | known
    found: dict[tuple[str, str], str] = {}
    for row in connection.execute(sa.text("SELECT scope, principal, permission FROM secret_acls")):
        if (holder := holders.get(row.principal.lower())) is not None:
            key = (row.scope, holder)
            found[key] = max(row.permission, found.get(key, _LEVELS[0]), key=_LEVELS.index)
    return [
        {"kind": "secret-scope", "object_id": scope, "principal_id": holder, "permission": permission}
        for (scope, holder), permission in found.items()
    ]


def _fill_creators(connection: sa.Connection) -> None:
    runs = sa.table("runs", sa.column("run_id", sa.BigInteger), sa.column("creator", sa.Text), sa.column("doc", sa.Text))
    change = sa.update(runs).where(runs.c.run_id == sa.bindparam("id")).values(creator=sa.bindparam("owner"))
    last = -1
    while True:
        query = sa.select(runs.c.run_id, runs.c.doc).where(runs.c.run_id > last).order_by(runs.c.run_id).limit(_BATCH)
        rows = connection.execute(query).all()
        if not rows:
            return
        owners = [{"id": row.run_id, "owner": json.loads(row.doc)["creator_user_name"]} for row in rows]
        connection.execute(change, owners)
        last = rows[-1].run_id
