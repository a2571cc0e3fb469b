"""The owners of records: whose records those of a connection are."""

import sqlalchemy as sa
from alembic import context, op

from headgate.store.sql.engine.types import UtcTime

revision = "0009"
down_revision = "0008"

#: The user of the connection or, if it is removed, of its first job. Where there are no accounts, a
#: user's id stands for the connection.
_FILL = """
    INSERT INTO headgate_record_owners (sync, connection_id, user_id, created_at)
    SELECT stored.sync, stored.connection_id,
        COALESCE(headgate_connections.user_id, headgate_jobs.user_id, stored.connection_id), :at
    FROM (SELECT DISTINCT sync, connection_id FROM headgate_records) AS stored
    LEFT JOIN headgate_connections ON headgate_connections.id = stored.connection_id
    LEFT JOIN (
        SELECT connection_id, MIN(id) AS id FROM headgate_jobs GROUP BY connection_id
    ) AS first_job ON first_job.connection_id = stored.connection_id
    LEFT JOIN headgate_jobs ON headgate_jobs.id = first_job.id
"""


def upgrade() -> None:
    """Create it, and fill it for the records that are there."""
    op.create_table(
        "headgate_record_owners",
        sa.Column("sync", sa.Text(), nullable=False),
        sa.Column("connection_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("sync", "connection_id", name=op.f("pk_headgate_record_owners")),
    )
    op.create_index(
        "ix_headgate_record_owners_of_user",
        "headgate_record_owners",
        ["user_id", "sync", "connection_id"],
    )
    at = context.config.attributes["now"].read(op.get_bind())
    op.execute(sa.text(_FILL).bindparams(sa.bindparam("at", at, type_=UtcTime())))
