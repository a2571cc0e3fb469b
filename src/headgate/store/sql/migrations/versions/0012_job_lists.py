"""Indexes for lists of jobs by sync, state, mode, user and connection."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_TABLE = "headgate_jobs"
_KIND = ["sync", "state", "mode", "id"]
_ENDED = sa.text("state IN ('cancelled', 'success', 'failed')")


def upgrade() -> None:
    """Replace two indexes, and add one."""
    op.drop_index("ix_headgate_jobs_ended", _TABLE)
    op.drop_index("ix_headgate_jobs_of_user", _TABLE)
    op.create_index("ix_headgate_jobs_of_kind", _TABLE, _KIND)
    op.create_index("ix_headgate_jobs_of_user", _TABLE, ["user_id", *_KIND])
    op.create_index(
        "ix_headgate_jobs_of_connection",
        _TABLE,
        ["connection_id", *_KIND],
        sqlite_where=_ENDED,
        postgresql_where=_ENDED,
    )
