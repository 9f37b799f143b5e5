"""Runs of tasks, and the outputs of their attempts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("job_id", sa.BigInteger, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("ended_ms", sa.BigInteger, nullable=False),
        sa.Column("idempotency_token", sa.String(64), nullable=False),
        sa.Column("due_ms", sa.BigInteger, nullable=True),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_index("runs_due", "runs", ["due_ms"])
    op.create_index("runs_created", "runs", ["created_ms", "run_id"])
    op.create_index("runs_active", "runs", ["ended_ms", "created_ms", "run_id"])
    op.create_index("runs_job", "runs", ["job_id"])
    op.create_index("runs_idempotency", "runs", ["idempotency_token"])
    op.create_table(
        "task_runs",
        sa.Column("task_run_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("run_id", sa.BigInteger, nullable=False),
        sa.Column("output", sa.Text, nullable=False),
    )
    op.create_index("task_runs_run", "task_runs", ["run_id"])
