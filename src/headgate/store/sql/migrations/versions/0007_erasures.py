"""Erasures of users, and indexes by which a user's messages and ticks are found."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from headgate.store.sql.engine.types import JsonOf, UtcTime

revision = "0007"
down_revision = "0006"


def _where(condition: str) -> dict[str, Any]:
    """The condition of a partial index, for both databases."""
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def upgrade() -> None:
    """Create them."""
    op.create_table(
        "headgate_erasures",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("connection_ids", JsonOf[Any](object), nullable=False),
        sa.Column("asked_by", sa.Text(), nullable=False),
        sa.Column("asked_at", UtcTime(), nullable=False),
        sa.Column("finished_at", UtcTime(), nullable=True),
        sa.Column("deleted", JsonOf[Any](object), nullable=False),
        sa.Column("unrevoked", JsonOf[Any](object), nullable=False),
        sa.CheckConstraint(
            "(user_id IS NULL) = (finished_at IS NOT NULL)",
            name=op.f("ck_headgate_erasures_finished"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_headgate_erasures")),
    )
    op.create_index(
        "uq_headgate_erasures_user",
        "headgate_erasures",
        ["user_id"],
        unique=True,
        **_where("user_id IS NOT NULL"),
    )
    op.create_index(
        "ix_headgate_messages_user",
        "headgate_messages",
        ["user_id", "id"],
        **_where("user_id IS NOT NULL"),
    )
    op.create_index("ix_headgate_tick_users_user", "headgate_tick_users", ["user_id"])
