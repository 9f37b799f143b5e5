"""Jobs, and the type of each run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("type", sa.String(16), nullable=False, server_default="SUBMIT_RUN"))
    op.drop_index("runs_job", "runs")
    op.create_index("runs_job", "runs", ["job_id", "ended_ms", "created_ms", "run_id"])
    op.create_table(
        "jobs",
        sa.Column("job_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("due_ms", sa.BigInteger, nullable=True),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_index("jobs_created", "jobs", ["created_ms", "job_id"])
    op.create_index("jobs_owner", "jobs", ["owner", "created_ms", "job_id"])
    op.create_index("jobs_due", "jobs", ["due_ms"])
