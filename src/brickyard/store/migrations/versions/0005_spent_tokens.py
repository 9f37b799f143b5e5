"""Idempotency tokens of runs that were deleted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "spent_tokens",
        sa.Column("token", sa.String(64), primary_key=True),
        sa.Column("run_id", sa.BigInteger, nullable=False),
        sa.Column("spent_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("spent_tokens_spent", "spent_tokens", ["spent_ms"])
