"""Notification destinations, the notices that wait to be sent, and what jobs' triggers have seen."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "destinations",
        sa.Column("destination_id", sa.String(36), primary_key=True),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_table(
        "outbox",
        sa.Column("notice_id", sa.String(32), primary_key=True),
        sa.Column("receiver", sa.String(36), nullable=False),
        sa.Column("due_ms", sa.BigInteger, nullable=False),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_index("outbox_due", "outbox", ["due_ms"])
    op.create_index("outbox_receiver", "outbox", ["receiver", "due_ms"])
    op.create_table(
        "job_triggers",
        sa.Column("job_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("doc", sa.Text, nullable=False),
    )
