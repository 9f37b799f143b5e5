"""The provider of every instance. Older rows have none: they belong to the configured provider."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("instances", sa.Column("provider", sa.String(64), nullable=False, server_default=""))
