"""Port mappings of clusters."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "ports",
        sa.Column("port_id", sa.String(64), primary_key=True),
        sa.Column("cluster_id", sa.String(64), nullable=False),
        sa.Column("external_port", sa.Integer, nullable=True),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("opened", sa.BigInteger, nullable=False),
        sa.Column("fault", sa.Text, nullable=False),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_index("ports_cluster", "ports", ["cluster_id"])
    op.create_index("ports_external", "ports", ["external_port"], unique=True)
