"""What the providers' budgets have spent."""

import sqlalchemy as sa
from alembic import op

from headgate.store.sql.types import JsonOf, UtcTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the ledgers, and the list of limiters elsewhere that have begun to count."""
    op.create_table(
        "budgets",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("ledger", JsonOf[object](object), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_budgets")),
    )
    op.create_table(
        "limiters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("begun_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_limiters")),
    )
