"""Who made pools and policies: what lists need to start from the caller's own."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_BATCH = 500


def upgrade() -> None:
    for table, key in (("pools", "instance_pool_id"), ("policies", "policy_id")):
        op.add_column(table, sa.Column("creator", sa.Text, nullable=False, server_default=""))
        _fill(op.get_bind(), table, key)
    op.create_index("pools_creator", "pools", ["creator", "created_ms", "instance_pool_id"])
    op.create_index("policies_creator", "policies", ["creator"])


def _fill(connection: sa.Connection, name: str, key: str) -> None:
    """The families' own policies have no creator."""
    table = sa.table(name, sa.column(key, sa.String), sa.column("creator", sa.Text), sa.column("doc", sa.Text))
    id = table.c[key]
    change = sa.update(table).where(id == sa.bindparam("id")).values(creator=sa.bindparam("owner"))
    last = ""
    while True:
        rows = connection.execute(sa.select(id, table.c.doc).where(id > last).order_by(id).limit(_BATCH)).all()
        if not rows:
            return
        connection.execute(change, [{"id": row[0], "owner": json.loads(row[1]).get("creator_user_name", "")} for row in rows])
        last = rows[-1][0]
