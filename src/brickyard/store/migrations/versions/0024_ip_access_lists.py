"""IP access lists."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "ip_access_lists",
        sa.Column("list_id", sa.String(36), primary_key=True),
        sa.Column("doc", sa.Text, nullable=False),
    )
