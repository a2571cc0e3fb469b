"""Notifications: what is the matter with which sync, as people were told."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from headgate.store.sql.engine.types import UtcTime

revision = "0006"
down_revision = "0005"


def _where(condition: str) -> dict[str, Any]:
    """The condition of a partial index, for both databases."""
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def upgrade() -> None:
    """Create it."""
    op.create_table(
        "headgate_troubles",
        sa.Column("connection_id", sa.Text(), nullable=False),
        sa.Column("sync", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("trouble", sa.Text(), nullable=True),
        sa.Column("paused_at", UtcTime(), nullable=True),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.CheckConstraint(
            "trouble IS NULL OR trouble IN ('failed', 'needs_reauth', 'paused')",
            name=op.f("ck_headgate_troubles_trouble"),
        ),
        sa.PrimaryKeyConstraint("connection_id", "sync", name=op.f("pk_headgate_troubles")),
    )
    op.create_index(
        "ix_headgate_troubles_paused",
        "headgate_troubles",
        ["paused_at", "connection_id", "sync"],
        **_where("paused_at IS NOT NULL AND (trouble IS NULL OR trouble != 'paused')"),
    )
    op.create_index(
        "ix_headgate_troubles_user", "headgate_troubles", ["user_id", "connection_id", "sync"]
    )
