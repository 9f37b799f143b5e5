"""Global init scripts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "global_init_scripts",
        sa.Column("script_id", sa.String(64), primary_key=True),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_table(
        "script_contents",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("content", sa.Text, nullable=False),
    )
