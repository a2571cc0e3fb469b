"""Jobs, their events, records, coverage and leaders."""

import sqlalchemy as sa
from alembic import op

from headgate.store.sql.types import JsonOf, UtcTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables and the indexes that the queries stand on."""
    op.create_table(
        "coverage",
        sa.Column("sync", sa.Text(), nullable=False),
        sa.Column("connection_id", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("records", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.CheckConstraint(
            "status IN ('held', 'empty', 'failed')", name=op.f("ck_coverage_status")
        ),
        sa.PrimaryKeyConstraint("sync", "connection_id", "day", name=op.f("pk_coverage")),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("connection_id", sa.Text(), nullable=False),
        sa.Column("sync", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=True),
        sa.Column("request_hash", sa.Text(), nullable=False),
        sa.Column("params", JsonOf(object), nullable=False),
        sa.Column("start_date", sa.Date(), nullable=True),
        sa.Column("end_date", sa.Date(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("wake_at", UtcTime(), nullable=True),
        sa.Column("turn", sa.BigInteger(), nullable=True),
        sa.Column("cursor", JsonOf(object), nullable=True),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("recent_errors", JsonOf(object), nullable=False),
        sa.Column("crashes", sa.Integer(), nullable=False),
        sa.Column("deferrals", sa.Integer(), nullable=False),
        sa.Column("pauses", sa.Integer(), nullable=False),
        sa.Column("probe", sa.Boolean(), nullable=False),
        sa.Column("hold", sa.Boolean(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", UtcTime(), nullable=True),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("progress", JsonOf(object), nullable=False),
        sa.Column("summary", JsonOf(object), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.Column("started_at", UtcTime(), nullable=True),
        sa.Column("finished_at", UtcTime(), nullable=True),
        sa.CheckConstraint(
            "(finished_at IS NOT NULL) = (state IN ('cancelled', 'success', 'failed'))",
            name=op.f("ck_jobs_finished"),
        ),
        sa.CheckConstraint(
            "(lease_until IS NOT NULL) = (state IN ('running', 'cancelling'))",
            name=op.f("ck_jobs_lease"),
        ),
        sa.CheckConstraint("lane IN ('hot', 'cold')", name=op.f("ck_jobs_lane")),
        sa.CheckConstraint(
            "mode IN ('full', 'since', 'limit', 'history')", name=op.f("ck_jobs_mode")
        ),
        sa.CheckConstraint(
            "state IN ('pending', 'running', 'paused', 'cancelling', 'cancelled', 'success', "
            "'failed')",
            name=op.f("ck_jobs_state"),
        ),
        sa.CheckConstraint("turn IS NULL OR state = 'pending'", name=op.f("ck_jobs_turn")),
        sa.CheckConstraint(
            "state <> 'pending' OR turn IS NOT NULL OR wake_at IS NOT NULL",
            name=op.f("ck_jobs_wakes"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index(
        "ix_jobs_asleep",
        "jobs",
        ["lane", "wake_at"],
        unique=False,
        sqlite_where=sa.text("state = 'pending' AND turn IS NULL"),
        postgresql_where=sa.text("state = 'pending' AND turn IS NULL"),
    )
    op.create_index(
        "ix_jobs_cancelling",
        "jobs",
        ["wake_at"],
        unique=False,
        sqlite_where=sa.text("state = 'cancelling'"),
        postgresql_where=sa.text("state = 'cancelling'"),
    )
    op.create_index(
        "ix_jobs_held",
        "jobs",
        ["lease_until"],
        unique=False,
        sqlite_where=sa.text("state IN ('running', 'cancelling')"),
        postgresql_where=sa.text("state IN ('running', 'cancelling')"),
    )
    op.create_index(
        "ix_jobs_in_line",
        "jobs",
        ["lane", "turn", "wake_at", "id"],
        unique=False,
        sqlite_where=sa.text("state = 'pending' AND turn IS NOT NULL"),
        postgresql_where=sa.text("state = 'pending' AND turn IS NOT NULL"),
    )
    op.create_index("ix_jobs_of_user", "jobs", ["user_id", "id"], unique=False)
    op.create_index(
        "ix_jobs_paused",
        "jobs",
        ["reason", "source", "wake_at"],
        unique=False,
        sqlite_where=sa.text("state = 'paused'"),
        postgresql_where=sa.text("state = 'paused'"),
    )
    op.create_index(
        "ix_jobs_probing",
        "jobs",
        ["source"],
        unique=False,
        sqlite_where=sa.text("probe"),
        postgresql_where=sa.text("probe"),
    )
    op.create_index(
        "ix_jobs_turn_of_user",
        "jobs",
        ["lane", "user_id", "turn"],
        unique=False,
        sqlite_where=sa.text("state = 'pending' AND turn IS NOT NULL"),
        postgresql_where=sa.text("state = 'pending' AND turn IS NOT NULL"),
    )
    op.create_index(
        "uq_jobs_active",
        "jobs",
        ["sync", "connection_id"],
        unique=True,
        sqlite_where=sa.text("state IN ('pending', 'running', 'paused', 'cancelling')"),
        postgresql_where=sa.text("state IN ('pending', 'running', 'paused', 'cancelling')"),
    )
    op.create_index(
        "uq_jobs_key",
        "jobs",
        ["user_id", "key"],
        unique=True,
        sqlite_where=sa.text('"key" IS NOT NULL'),
        postgresql_where=sa.text('"key" IS NOT NULL'),
    )
    op.create_table(
        "leaders",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("until", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leaders")),
    )
    op.create_table(
        "records",
        sa.Column("sync", sa.Text(), nullable=False),
        sa.Column("connection_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("data", JsonOf(object), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("sync", "connection_id", "key", name=op.f("pk_records")),
    )
    op.create_table(
        "job_events",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("at", UtcTime(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("data", JsonOf(object), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job_events")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_job_events_job", "job_events", ["job_id", "id"], unique=False)
