"""Jobs that have ended, by sync and state, so that they are counted without touching a row."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_ENDED = sa.text("state IN ('cancelled', 'success', 'failed')")


def upgrade() -> None:
    """Add the index: written when a job ends, and not before."""
    op.create_index(
        "ix_jobs_ended", "jobs", ["sync", "state"], sqlite_where=_ENDED, postgresql_where=_ENDED
    )
