"""The first table: the prices that were received."""

import sqlalchemy as sa
from alembic import op

from headgate.systems.price_history.tables import ExactNumber
from headgate.toolkit.tables import UtcTime

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create it."""
    op.create_table(
        "price_history_prices",
        sa.Column("user_id", sa.Text(), primary_key=True),
        sa.Column("product_id", sa.Text(), primary_key=True),
        sa.Column("source_id", sa.Text(), primary_key=True),
        sa.Column("scraped_at", UtcTime(), primary_key=True),
        sa.Column("run_id", sa.Text(), primary_key=True),
        sa.Column("price", ExactNumber(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("received_at", UtcTime(), nullable=False),
    )
    op.create_index(
        "price_history_prices_by_source",
        "price_history_prices",
        ["user_id", "source_id", "product_id", "scraped_at", "run_id"],
    )
