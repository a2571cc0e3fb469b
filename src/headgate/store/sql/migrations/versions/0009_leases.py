"""Queues by sync, so that a worker's claim walks only over what it can run.

Revision ID: 0009
Revises: 0006
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0009"
down_revision: str | None = "0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

IN_LINE = sa.text("state = 'pending' AND turn IS NOT NULL")
ASLEEP = sa.text("state = 'pending' AND turn IS NULL")

INDEXES = {
    "ix_jobs_in_line": (["lane", "sync", "turn", "wake_at", "id"], IN_LINE),
    "ix_jobs_turn_of_user": (["lane", "user_id", "turn", "sync"], IN_LINE),
    "ix_jobs_asleep": (["lane", "sync", "wake_at"], ASLEEP),
}


def upgrade() -> None:
    """Build the indexes again, with the sync in them."""
    for name, (columns, where) in INDEXES.items():
        op.drop_index(name, table_name="jobs")
        op.create_index(name, "jobs", columns, sqlite_where=where, postgresql_where=where)
    # No job waits any more because a worker took it that does not know its sync.
    op.execute("UPDATE jobs SET reason = 'queued' WHERE reason = 'unknown_sync'")
