"""Whose turn it is among runs that are repaired, and the iterations of for-each tasks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("turn_ms", sa.BigInteger, nullable=False, server_default="0"))
    op.execute("UPDATE runs SET turn_ms = created_ms")
    op.create_index("runs_turn", "runs", ["job_id", "ended_ms", "turn_ms", "run_id"])
    op.add_column("task_runs", sa.Column("for_each_id", sa.BigInteger, nullable=True))
    op.add_column("task_runs", sa.Column("number", sa.Integer, nullable=False, server_default="0"))
    op.add_column("task_runs", sa.Column("doc", sa.Text, nullable=False, server_default=""))
    op.create_index("task_runs_iterations", "task_runs", ["for_each_id", "number"])
