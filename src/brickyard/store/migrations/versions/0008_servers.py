"""The servers that serve the workspace."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "servers",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("doc", sa.Text, nullable=False),
        sa.Column("started_ms", sa.BigInteger, nullable=False),
        sa.Column("seen_ms", sa.BigInteger, nullable=False),
        sa.Column("alone", sa.Boolean, nullable=False),
        sa.Column("stopping", sa.SmallInteger, nullable=False),
    )
