"""Cluster policies."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "policies",
        sa.Column("policy_id", sa.String(64), primary_key=True),
        sa.Column("unique_name", sa.String(128), nullable=False, unique=True),
        sa.Column("doc", sa.Text, nullable=False),
    )
