"""Instance pools, and which instances belong to them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "pools",
        sa.Column("instance_pool_id", sa.String(64), primary_key=True),
        sa.Column("unique_name", sa.String(128), nullable=False, unique=True),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("deleted_ms", sa.BigInteger, nullable=False),
        sa.Column("due_ms", sa.BigInteger, nullable=True),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_index("pools_due", "pools", ["due_ms"])
    op.add_column("instances", sa.Column("pool_id", sa.String(64), nullable=False, server_default=""))
    op.add_column("instances", sa.Column("standing", sa.SmallInteger, nullable=False, server_default="0"))
    op.create_index("instances_pool", "instances", ["pool_id", "standing", "instance_id"])
