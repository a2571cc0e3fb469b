"""The systems that an erasure has to reach, and indexes by which a user's keys are found."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from headgate.store.sql.engine.types import JsonOf

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add them."""
    op.add_column(
        "headgate_erasures",
        sa.Column("systems", JsonOf[Any](object), nullable=False, server_default="[]"),
    )
    op.create_index(
        "ix_headgate_api_keys_of_user",
        "headgate_api_keys",
        ["user_id"],
        sqlite_where=sa.text("user_id IS NOT NULL"),
        postgresql_where=sa.text("user_id IS NOT NULL"),
    )
    op.create_index(
        "ix_headgate_connect_attempts_of_user", "headgate_connect_attempts", ["user_id"]
    )
