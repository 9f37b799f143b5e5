"""Credentials of several kinds: who made them, their last use, and what they came from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tokens", sa.Column("kind", sa.String(16), nullable=False, server_default="pat"))
    op.add_column("tokens", sa.Column("created_by", sa.Text, nullable=False, server_default=""))
    op.add_column("tokens", sa.Column("last_used_ms", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("tokens", sa.Column("parent", sa.String(64), nullable=False, server_default=""))
    op.add_column("tokens", sa.Column("details", sa.Text, nullable=False, server_default=""))
    op.create_index("tokens_parent", "tokens", ["parent"])
    op.create_index("tokens_expiry", "tokens", ["expiry_ms"])
