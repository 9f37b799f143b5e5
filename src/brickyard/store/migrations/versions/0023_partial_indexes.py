"""Indexes of a few rows that are no longer written for all the others.

A new cluster went into fifteen indexes, although most clusters have no policy, no idempotency token, no pin and no task, and most
instances no pool.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_PARTIAL = (
    ("clusters_task", "clusters", ["task_ms"], "task_ms IS NOT NULL"),
    ("clusters_policy_created", "clusters", ["policy_id", "created_ms", "cluster_id"], "policy_id <> ''"),
    ("clusters_policy_name", "clusters", ["policy_id", "cluster_name", "cluster_id"], "policy_id <> ''"),
    ("clusters_pinned", "clusters", ["pinned_ms"], "pinned_ms > 0"),
    ("clusters_idempotency", "clusters", ["idempotency_token"], "idempotency_token <> ''"),
    ("instances_pool", "instances", ["pool_id", "standing", "instance_id"], "pool_id <> ''"),
)


def upgrade() -> None:
    for name, table, columns, where in _PARTIAL:
        op.drop_index(name, table)
        op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
