"""The outbox: messages, their deliveries, and the targets that have stopped."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from headgate.store.sql.engine.types import UtcTime

revision = "0002"
down_revision = "0001"


def _where(condition: str) -> dict[str, Any]:
    """The condition of a partial index, for both databases."""
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def upgrade() -> None:
    """Create them."""
    op.create_table(
        "headgate_messages",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("payload_hash", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_headgate_messages")),
        sa.UniqueConstraint("topic", "key", name=op.f("uq_headgate_messages_topic_key")),
    )
    op.create_index(
        "ix_headgate_messages_created", "headgate_messages", ["topic", "created_at", "id"]
    )
    op.create_table(
        "headgate_deliveries",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("crashes", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", UtcTime(), nullable=True),
        sa.Column("attempted_at", UtcTime(), nullable=True),
        sa.Column("sent_at", UtcTime(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", UtcTime(), nullable=True),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.CheckConstraint(
            "(lease_until IS NOT NULL) = (state = 'sending')",
            name=op.f("ck_headgate_deliveries_lease"),
        ),
        sa.CheckConstraint(
            "(next_attempt_at IS NOT NULL) = (state IN ('pending', 'failed'))",
            name=op.f("ck_headgate_deliveries_wakes"),
        ),
        sa.CheckConstraint(
            "(sent_at IS NOT NULL) = (state = 'sent')", name=op.f("ck_headgate_deliveries_sent")
        ),
        sa.CheckConstraint(
            "state IN ('pending', 'sending', 'sent', 'failed', 'dead')",
            name=op.f("ck_headgate_deliveries_state"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_headgate_deliveries")),
        sa.UniqueConstraint(
            "message_id", "target", name=op.f("uq_headgate_deliveries_message_id_target")
        ),
    )
    op.create_index(
        "ix_headgate_deliveries_unsent",
        "headgate_deliveries",
        ["target", "next_attempt_at", "id"],
        **_where("state IN ('pending', 'failed')"),
    )
    op.create_index(
        "ix_headgate_deliveries_sending",
        "headgate_deliveries",
        ["lease_until"],
        **_where("state = 'sending'"),
    )
    op.create_index(
        "ix_headgate_deliveries_sent",
        "headgate_deliveries",
        ["sent_at"],
        **_where("state = 'sent'"),
    )
    op.create_index(
        "ix_headgate_deliveries_state", "headgate_deliveries", ["target", "state", "id"]
    )
    op.create_index(
        "ix_headgate_deliveries_run",
        "headgate_deliveries",
        ["run_id", "id"],
        **_where("run_id IS NOT NULL"),
    )
    op.create_index(
        "ix_headgate_deliveries_user",
        "headgate_deliveries",
        ["user_id", "id"],
        **_where("user_id IS NOT NULL"),
    )
    op.create_table(
        "headgate_target_stops",
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("stopped_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("target", name=op.f("pk_headgate_target_stops")),
    )
