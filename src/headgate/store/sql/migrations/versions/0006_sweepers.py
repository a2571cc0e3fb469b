"""Every process sweeps: no leader, and the schema itself allows one probe per provider."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop the leader's table, and make the index of probes unique."""
    op.drop_table("leaders")
    # A job that was cancelled in the moment it became a probe is none any more.
    op.execute("UPDATE jobs SET probe = false WHERE probe AND finished_at IS NOT NULL")
    op.drop_index("ix_jobs_probing", "jobs")
    probing = sa.text("probe")
    op.create_index(
        "uq_jobs_probing",
        "jobs",
        ["provider"],
        unique=True,
        sqlite_where=probing,
        postgresql_where=probing,
    )
