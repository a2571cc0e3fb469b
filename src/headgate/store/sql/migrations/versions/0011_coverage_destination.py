"""Where the records of covered days went, so that old jobs can be deleted."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_FILL = """
    UPDATE headgate_coverage SET destination_connection_id = (
        SELECT headgate_jobs.destination_connection_id FROM headgate_jobs
        WHERE headgate_jobs.id = headgate_coverage.job_id
    )
    WHERE job_id IN (SELECT id FROM headgate_jobs WHERE destination_connection_id IS NOT NULL)
"""


def upgrade() -> None:
    """Add the column, and fill it from the jobs that are there."""
    op.add_column("headgate_coverage", sa.Column("destination_connection_id", sa.Text()))
    op.execute(_FILL)
