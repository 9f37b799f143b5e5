"""Snapshots of workspace directories, and which clusters have something to be done with theirs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "snapshots",
        sa.Column("snapshot_id", sa.String(128), primary_key=True),
        sa.Column("cluster_id", sa.String(64), nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_index("snapshots_cluster", "snapshots", ["cluster_id", "created_ms"])
    op.create_index("snapshots_status", "snapshots", ["status", "created_ms"])
    op.add_column("clusters", sa.Column("task_ms", sa.BigInteger, nullable=True))
    op.create_index("clusters_task", "clusters", ["task_ms"])
