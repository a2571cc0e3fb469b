"""The first table: the check-ins of users."""

import sqlalchemy as sa
from alembic import op

from headgate.toolkit.tables import UtcTime

revision = "0001"
down_revision = None

_TABLE = "daily_checkins_checkins"


def upgrade() -> None:
    """Create it."""
    op.create_table(
        _TABLE,
        sa.Column("user_id", sa.Text(), primary_key=True),
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("connection_id", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("time_zone_offset_min", sa.Integer()),
        sa.Column("shout", sa.Text()),
        sa.Column("venue_id", sa.Text()),
        sa.Column("venue_name", sa.Text()),
        sa.Column("venue_category", sa.Text()),
        sa.Column("venue_address", sa.Text()),
        sa.Column("venue_city", sa.Text()),
        sa.Column("venue_country", sa.Text()),
        sa.Column("venue_lat", sa.Double()),
        sa.Column("venue_lng", sa.Double()),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("imported_at", UtcTime(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
    )
    op.create_index(f"{_TABLE}_by_time", _TABLE, ["user_id", "created_at", "id"])
    op.create_index(f"{_TABLE}_by_import", _TABLE, ["imported_at"])
