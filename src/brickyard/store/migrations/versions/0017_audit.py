"""The audit log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("time", sa.BigInteger, nullable=False),
        sa.Column("user_name", sa.String(320), nullable=False),
        sa.Column("operation", sa.String(64), nullable=False),
        sa.Column("object_id", sa.String(320), nullable=False),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_index("audit_time", "audit", ["time", "id"])
    for column in ("user_name", "operation", "object_id"):
        op.create_index(f"audit_{column}", "audit", [column, "time", "id"])
