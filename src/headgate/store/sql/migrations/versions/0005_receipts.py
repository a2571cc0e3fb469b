"""Receipts: what destinations have made of records."""

import sqlalchemy as sa
from alembic import op

from headgate.store.sql.engine.types import UtcTime

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "headgate_receipts",
        sa.Column("sync", sa.Text(), nullable=False),
        sa.Column("connection_id", sa.Text(), nullable=False),
        sa.Column("destination_connection_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.CheckConstraint(
            "state IN ('claimed', 'taken', 'refused')", name=op.f("ck_headgate_receipts_state")
        ),
        sa.PrimaryKeyConstraint(
            "sync",
            "connection_id",
            "destination_connection_id",
            "key",
            name=op.f("pk_headgate_receipts"),
        ),
    )
