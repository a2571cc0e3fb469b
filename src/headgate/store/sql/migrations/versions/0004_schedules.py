"""Schedules, their ticks, and what each tick meant for each connection."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from headgate.store.sql.engine.types import UtcTime

revision = "0004"
down_revision = "0003"

_ENDED = "state IN ('cancelled', 'success', 'failed')"
_REASONS = (
    "'needs_reauth', 'connection_paused', 'not_connected', 'several_connections', 'user_paused', "
    "'inactive', 'plan', 'not_due', 'job_active', 'no_budget'"
)


def _where(condition: str) -> dict[str, Any]:
    """The condition of a partial index, for both databases."""
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def upgrade() -> None:
    """Create them, and the indexes by which candidates are found."""
    op.create_table(
        "headgate_schedules",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("last_tick", UtcTime(), nullable=True),
        sa.Column("next_tick_at", UtcTime(), nullable=False),
        sa.Column("paused_at", UtcTime(), nullable=True),
        sa.Column("paused_by", sa.Text(), nullable=True),
        sa.Column("pause_reason", sa.Text(), nullable=True),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.CheckConstraint(
            "(paused_at IS NULL) = (paused_by IS NULL)", name=op.f("ck_headgate_schedules_paused")
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_headgate_schedules")),
    )
    _create_ticks()
    op.create_index("ix_headgate_connections_of_source", "headgate_connections", ["source", "id"])
    op.create_index(
        "ix_headgate_jobs_last_ended",
        "headgate_jobs",
        ["sync", "connection_id", "finished_at", "state"],
        **_where(_ENDED),
    )


def _create_ticks() -> None:
    op.create_table(
        "headgate_ticks",
        sa.Column("schedule", sa.Text(), nullable=False),
        sa.Column("tick", UtcTime(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("fired_at", UtcTime(), nullable=False),
        sa.Column("queued", sa.Integer(), nullable=False),
        sa.Column("skipped", sa.Integer(), nullable=False),
        sa.Column("missed", sa.Integer(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("asked_by", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "kind IN ('cron', 'manual', 'fresh')", name=op.f("ck_headgate_ticks_kind")
        ),
        sa.CheckConstraint(
            "(asked_by IS NOT NULL) = (kind = 'manual')", name=op.f("ck_headgate_ticks_asked")
        ),
        sa.PrimaryKeyConstraint("schedule", "tick", name=op.f("pk_headgate_ticks")),
    )
    op.create_index("ix_headgate_ticks_tick", "headgate_ticks", ["tick", "schedule"])
    op.create_table(
        "headgate_tick_users",
        sa.Column("schedule", sa.Text(), nullable=False),
        sa.Column("tick", UtcTime(), nullable=False),
        sa.Column("connection_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.CheckConstraint(f"reason IN ({_REASONS})", name=op.f("ck_headgate_tick_users_reason")),
        sa.CheckConstraint(
            "job_id IS NOT NULL OR reason IS NOT NULL", name=op.f("ck_headgate_tick_users_outcome")
        ),
        sa.PrimaryKeyConstraint(
            "schedule", "tick", "connection_id", name=op.f("pk_headgate_tick_users")
        ),
    )
    op.create_index(
        "ix_headgate_tick_users_last",
        "headgate_tick_users",
        ["schedule", "connection_id", "tick"],
        **_where("reason IS NULL"),
    )
