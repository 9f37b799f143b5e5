"""The first schema: clusters, instances, events, tokens, users, meta."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_Sequence = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "clusters",
        sa.Column("cluster_id", sa.String(64), primary_key=True),
        sa.Column("cluster_name", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("source", sa.String(24), nullable=False),
        sa.Column("creator", sa.Text, nullable=False),
        sa.Column("policy_id", sa.String(64), nullable=False),
        sa.Column("idempotency_token", sa.String(64), nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("terminated_ms", sa.BigInteger, nullable=False),
        sa.Column("pinned_ms", sa.BigInteger, nullable=False),
        sa.Column("deleted_ms", sa.BigInteger, nullable=False),
        sa.Column("due_ms", sa.BigInteger, nullable=True),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_index("clusters_due", "clusters", ["due_ms"])
    op.create_index("clusters_created", "clusters", ["created_ms", "cluster_id"])
    op.create_index("clusters_name", "clusters", ["cluster_name", "cluster_id"])
    op.create_index("clusters_pinned", "clusters", ["pinned_ms"])
    op.create_index("clusters_idempotency", "clusters", ["idempotency_token"])
    op.create_table(
        "instances",
        sa.Column("instance_id", sa.String(64), primary_key=True),
        sa.Column("cluster_id", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_index("instances_cluster", "instances", ["cluster_id"])
    op.create_table(
        "events",
        sa.Column("seq", _Sequence, primary_key=True, autoincrement=True),
        sa.Column("cluster_id", sa.String(64), nullable=False),
        sa.Column("timestamp", sa.BigInteger, nullable=False),
        sa.Column("type", sa.String(48), nullable=False),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_index("events_by_time", "events", ["cluster_id", "timestamp", "seq"])
    op.create_table(
        "tokens",
        sa.Column("token_id", sa.String(64), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("user_name", sa.Text, nullable=False),
        sa.Column("comment", sa.Text, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("expiry_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("tokens_user", "tokens", ["user_name"])
    op.create_table(
        "users",
        sa.Column("user_name", sa.String(320), primary_key=True),
        sa.Column("user_id", sa.String(32), nullable=False, unique=True),
        sa.Column("display_name", sa.Text, nullable=False),
        sa.Column("is_admin", sa.Boolean, nullable=False),
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
