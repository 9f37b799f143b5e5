"""Schedules that start and stop clusters."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "schedules",
        sa.Column("schedule_id", sa.String(64), primary_key=True),
        sa.Column("cluster_id", sa.String(64), nullable=False),
        sa.Column("due_ms", sa.BigInteger, nullable=True),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_index("schedules_due", "schedules", ["due_ms"])
    op.create_index("schedules_cluster", "schedules", ["cluster_id"])
