"""Calls of the Statement Execution API whose answers may not have reached their clients."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "statement_calls",
        sa.Column("call_key", sa.String(64), primary_key=True),
        sa.Column("statement_id", sa.String(36), nullable=False),
        sa.Column("expires_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("statement_calls_expires", "statement_calls", ["expires_ms"])
