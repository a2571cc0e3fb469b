"""The first table: what users have read."""

import sqlalchemy as sa
from alembic import op

from headgate.toolkit.tables import UtcTime

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create it."""
    op.create_table(
        "reading_list_marks",
        sa.Column("user_id", sa.Text(), primary_key=True),
        sa.Column("article_id", sa.Text(), primary_key=True),
        sa.Column("read_at", UtcTime(), nullable=False),
    )
