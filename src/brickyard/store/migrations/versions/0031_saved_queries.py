"""Saved queries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "saved_queries",
        sa.Column("query_id", sa.String(36), primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_index("saved_queries_created", "saved_queries", ["created_ms", "query_id"])
    op.create_index("saved_queries_owner", "saved_queries", ["owner", "created_ms", "query_id"])
