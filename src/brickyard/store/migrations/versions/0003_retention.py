"""Retention of clusters and events, and pages whose cost does not depend on the number of rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_LISTS = {
    f"clusters_{what}_{order}": [column, by, "cluster_id"]
    for what, column in (("state", "state"), ("source", "source"), ("policy", "policy_id"))
    for order, by in (("created", "created_ms"), ("name", "cluster_name"))
}
_NUMBERS = """
UPDATE events SET number = numbered.number FROM (
  SELECT seq, row_number() OVER (PARTITION BY cluster_id ORDER BY timestamp, seq) AS number FROM events
) AS numbered WHERE numbered.seq = events.seq
"""


def upgrade() -> None:
    op.create_table(
        "purged",
        sa.Column("cluster_id", sa.String(64), primary_key=True),
        sa.Column("purged_ms", sa.BigInteger, nullable=False),
    )
    op.execute("ALTER TABLE clusters RENAME COLUMN terminated_ms TO unkept_ms")
    op.execute("UPDATE clusters SET unkept_ms = 0 WHERE pinned_ms > 0")
    for name, columns in _LISTS.items():
        op.create_index(name, "clusters", columns)
    # Terminated clusters were never due again; the loop looks at each of them once and determines when its retention ends.
    op.execute("UPDATE clusters SET due_ms = 0 WHERE due_ms IS NULL")
    op.add_column("events", sa.Column("number", sa.BigInteger, nullable=False, server_default="0"))
    op.execute(_NUMBERS)
    op.create_index("events_by_type", "events", ["cluster_id", "type", "timestamp", "seq"])
