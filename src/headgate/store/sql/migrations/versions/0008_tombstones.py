"""Tombstones: what providers have deleted, so that a read under way does not bring it back."""

import sqlalchemy as sa
from alembic import op

from headgate.store.sql.engine.types import UtcTime

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "headgate_tombstones",
        sa.Column("connection_id", sa.Text(), nullable=False),
        sa.Column("stored_as", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("deleted_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint(
            "connection_id", "stored_as", "key", name=op.f("pk_headgate_tombstones")
        ),
    )
