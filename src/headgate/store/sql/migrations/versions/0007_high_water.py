"""High-water marks: how far each sync has read for a connection."""

import sqlalchemy as sa
from alembic import op

from headgate.store.sql.types import JsonOf, UtcTime

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, and give jobs the mark that they have reached."""
    op.create_table(
        "high_water_marks",
        sa.Column("sync", sa.Text(), nullable=False),
        sa.Column("connection_id", sa.Text(), nullable=False),
        sa.Column("value", JsonOf[object](object), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("sync", "connection_id", name=op.f("pk_high_water_marks")),
    )
    op.add_column("jobs", sa.Column("high_water", JsonOf[object](object), nullable=True))
