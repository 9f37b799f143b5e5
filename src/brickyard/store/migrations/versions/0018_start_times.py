"""How long starts of clusters took."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "start_times",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("kind", sa.String(255), nullable=False),
        sa.Column("took_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("start_times_kind", "start_times", ["kind", "id"])
