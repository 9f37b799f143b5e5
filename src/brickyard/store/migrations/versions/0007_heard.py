"""What the servers on one database have heard from agents."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "heard",
        sa.Column("instance_id", sa.String(64), primary_key=True),
        sa.Column("heard_ms", sa.BigInteger, nullable=False),
        sa.Column("load", sa.Text, nullable=True),
    )
