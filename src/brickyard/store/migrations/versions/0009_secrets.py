"""Secret scopes, their secrets and who may use them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "secret_scopes",
        sa.Column("scope", sa.String(128), primary_key=True),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("creator", sa.Text, nullable=False),
    )
    op.create_table(
        "secrets",
        sa.Column("scope", sa.String(128), primary_key=True),
        sa.Column("key", sa.String(128), primary_key=True),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("updated_ms", sa.BigInteger, nullable=False),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("wrapped", sa.LargeBinary, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_index("secrets_key_id", "secrets", ["key_id"])
    op.create_table(
        "secret_acls",
        sa.Column("scope", sa.String(128), primary_key=True),
        sa.Column("principal", sa.String(320), primary_key=True),
        sa.Column("permission", sa.String(16), nullable=False),
    )
