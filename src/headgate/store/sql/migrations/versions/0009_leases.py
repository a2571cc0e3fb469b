"""Queues by sync, so that a claim walks only over what its worker can run; and the workers."""

import sqlalchemy as sa
from alembic import op

from headgate.model.worker import Abilities
from headgate.store.sql.types import JsonOf, UtcTime

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_IN_LINE = sa.text("state = 'pending' AND turn IS NOT NULL")
_ASLEEP = sa.text("state = 'pending' AND turn IS NULL")
_PAUSED = sa.text("state = 'paused'")
_INDEXES = {
    "ix_jobs_paused": (["reason", "provider", "wake_at", "sync"], _PAUSED),
    "ix_jobs_in_line": (["lane", "sync", "turn", "wake_at", "id"], _IN_LINE),
    "ix_jobs_turn_of_user": (["lane", "user_id", "turn", "sync"], _IN_LINE),
    "ix_jobs_asleep": (["lane", "sync", "wake_at"], _ASLEEP),
}


def upgrade() -> None:
    """Build the indexes again, with the sync in them."""
    for name, (columns, where) in _INDEXES.items():
        op.drop_index(name, table_name="jobs")
        op.create_index(name, "jobs", columns, sqlite_where=where, postgresql_where=where)
    # No job waits any more because a worker took it that does not know its sync.
    op.execute("UPDATE jobs SET reason = 'queued' WHERE reason = 'unknown_sync'")
    op.add_column(
        "jobs", sa.Column("rerun", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("abilities", JsonOf[Abilities](Abilities), nullable=False),
        sa.Column("started_at", UtcTime(), nullable=False),
        sa.Column("expires_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
    )
