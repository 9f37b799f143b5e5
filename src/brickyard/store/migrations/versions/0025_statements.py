"""Statements of the Statement Execution API, and the history of queries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "statements",
        sa.Column("statement_id", sa.String(36), primary_key=True),
        sa.Column("expires_ms", sa.BigInteger, nullable=False),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_index("statements_expires", "statements", ["expires_ms"])
    op.create_table(
        "queries",
        sa.Column("query_id", sa.String(36), primary_key=True),
        sa.Column("started_ms", sa.BigInteger, nullable=False),
        sa.Column("user_id", sa.String(32), nullable=False),
        sa.Column("cluster_id", sa.String(64), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_index("queries_started", "queries", ["started_ms", "query_id"])
    op.create_index("queries_user", "queries", ["user_id", "started_ms", "query_id"])
    op.create_index("queries_cluster", "queries", ["cluster_id", "started_ms", "query_id"])
