"""Every table of the engine, and the indexes that its queries stand on."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from headgate.store.sql.engine.types import JsonOf, UtcTime

revision = "0001"
down_revision = None


def _where(condition: str) -> dict[str, Any]:
    """The condition of a partial index, for both databases."""
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def upgrade() -> None:
    """Create them."""
    op.create_table(
        "headgate_api_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("revoked_at", UtcTime(), nullable=True),
        sa.CheckConstraint(
            "(user_id IS NULL) = (role = 'admin')", name=op.f("ck_headgate_api_keys_owner")
        ),
        sa.CheckConstraint(
            "role IN ('reader', 'user', 'admin')", name=op.f("ck_headgate_api_keys_role")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_headgate_api_keys")),
    )
    op.create_table(
        "headgate_budgets",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("ledger", JsonOf(object), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_headgate_budgets")),
    )
    op.create_table(
        "headgate_connect_attempts",
        sa.Column("state_hash", sa.Text(), nullable=False),
        sa.Column("session_hash", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("connection_id", sa.Text(), nullable=True),
        sa.Column("redirect_uri", sa.Text(), nullable=False),
        sa.Column("sealed_verifier", sa.LargeBinary(), nullable=False),
        sa.Column("expires_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("state_hash", name=op.f("pk_headgate_connect_attempts")),
    )
    op.create_index(
        "ix_headgate_connect_attempts_expiry", "headgate_connect_attempts", ["expires_at"]
    )
    op.create_table(
        "headgate_connections",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("external_id", sa.Text(), nullable=True),
        sa.Column("scopes", JsonOf(object), nullable=False),
        sa.Column("sealed_access", sa.LargeBinary(), nullable=False),
        sa.Column("sealed_refresh", sa.LargeBinary(), nullable=True),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("expires_at", UtcTime(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("lease_holder", sa.Text(), nullable=True),
        sa.Column("lease_until", UtcTime(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.CheckConstraint(
            "state IN ('active', 'paused', 'needs_reauth')",
            name=op.f("ck_headgate_connections_state"),
        ),
        sa.CheckConstraint(
            "(lease_holder IS NULL) = (lease_until IS NULL)",
            name=op.f("ck_headgate_connections_lease"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_headgate_connections")),
    )
    op.create_index("ix_headgate_connections_key", "headgate_connections", ["key_id", "id"])
    op.create_index(
        "ix_headgate_connections_of_account",
        "headgate_connections",
        ["source", "external_id"],
        **_where("external_id IS NOT NULL"),
    )
    op.create_index("ix_headgate_connections_of_user", "headgate_connections", ["user_id", "id"])
    op.create_index(
        "uq_headgate_connections_account",
        "headgate_connections",
        ["user_id", "source", "external_id"],
        unique=True,
        **_where("external_id IS NOT NULL"),
    )
    op.create_table(
        "headgate_coverage",
        sa.Column("sync", sa.Text(), nullable=False),
        sa.Column("connection_id", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("records", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.CheckConstraint(
            "status IN ('held', 'empty', 'failed')", name=op.f("ck_headgate_coverage_status")
        ),
        sa.PrimaryKeyConstraint("sync", "connection_id", "day", name=op.f("pk_headgate_coverage")),
    )
    op.create_table(
        "headgate_high_water_marks",
        sa.Column("sync", sa.Text(), nullable=False),
        sa.Column("connection_id", sa.Text(), nullable=False),
        sa.Column("value", JsonOf(object), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("sync", "connection_id", name=op.f("pk_headgate_high_water_marks")),
    )
    op.create_table(
        "headgate_idempotent_requests",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_hash", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("headers", JsonOf(object), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("expires_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "key", name=op.f("pk_headgate_idempotent_requests")),
    )
    op.create_index(
        "ix_headgate_idempotent_requests_expiry", "headgate_idempotent_requests", ["expires_at"]
    )
    op.create_table(
        "headgate_item_documents",
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.Column("attributes", JsonOf(object), nullable=False),
        sa.Column("fetched_at", UtcTime(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("encoding", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("item_id", name=op.f("pk_headgate_item_documents")),
    )
    op.create_table(
        "headgate_items",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("connection_id", sa.Text(), nullable=False),
        sa.Column("external_id", sa.Text(), nullable=True),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("start_time", UtcTime(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("retry_count", sa.Integer(), nullable=False),
        sa.Column("deferrals", sa.Integer(), nullable=False),
        sa.Column("crashes", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", UtcTime(), nullable=True),
        sa.Column("deferred_until", UtcTime(), nullable=True),
        sa.Column("attempted_at", UtcTime(), nullable=True),
        sa.Column("limited_at", UtcTime(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", UtcTime(), nullable=True),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.CheckConstraint(
            "(deferred_until IS NOT NULL) = (state = 'deferred')",
            name=op.f("ck_headgate_items_deferred"),
        ),
        sa.CheckConstraint(
            "(lease_until IS NOT NULL) = (state = 'fetching')", name=op.f("ck_headgate_items_lease")
        ),
        sa.CheckConstraint(
            "external_id IS NOT NULL OR state = 'unavailable'", name=op.f("ck_headgate_items_known")
        ),
        sa.CheckConstraint("lane IN ('hot', 'cold')", name=op.f("ck_headgate_items_lane")),
        sa.CheckConstraint(
            "next_attempt_at IS NOT NULL OR state NOT IN ('pending', 'deferred')",
            name=op.f("ck_headgate_items_wakes"),
        ),
        sa.CheckConstraint(
            "next_attempt_at IS NULL OR state IN ('pending', 'failed', 'deferred')",
            name=op.f("ck_headgate_items_claimable"),
        ),
        sa.CheckConstraint(
            "state IN ('pending', 'fetching', 'success', 'failed', 'deferred', 'unavailable')",
            name=op.f("ck_headgate_items_state"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_headgate_items")),
    )
    op.create_index(
        "ix_headgate_items_counted",
        "headgate_items",
        ["collection", "state", "user_id", "retry_count"],
    )
    op.create_index(
        "ix_headgate_items_eligible",
        "headgate_items",
        [
            "collection",
            "connection_id",
            sa.literal_column("lane DESC"),
            "start_time",
            "id",
            "next_attempt_at",
        ],
        **_where(
            "state IN ('pending', 'failed', 'deferred') "
            "AND external_id IS NOT NULL AND next_attempt_at IS NOT NULL"
        ),
    )
    op.create_index(
        "ix_headgate_items_fetching",
        "headgate_items",
        ["lease_until"],
        **_where("state = 'fetching'"),
    )
    op.create_index(
        "ix_headgate_items_limited",
        "headgate_items",
        ["collection", "limited_at"],
        **_where("limited_at IS NOT NULL"),
    )
    op.create_index(
        "uq_headgate_items_external",
        "headgate_items",
        ["connection_id", "collection", "external_id"],
        unique=True,
    )
    op.create_table(
        "headgate_job_events",
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
        sa.PrimaryKeyConstraint("id", name=op.f("pk_headgate_job_events")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_headgate_job_events_job", "headgate_job_events", ["job_id", "id"])
    op.create_table(
        "headgate_jobs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("connection_id", sa.Text(), nullable=False),
        sa.Column("sync", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=True),
        sa.Column("destination_connection_id", sa.Text(), nullable=True),
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
        sa.Column("provider", sa.Text(), nullable=True),
        sa.Column("wake_at", UtcTime(), nullable=True),
        sa.Column("turn", sa.BigInteger(), nullable=True),
        sa.Column("cursor", JsonOf(object), nullable=True),
        sa.Column("high_water", JsonOf(object), nullable=True),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("recent_errors", JsonOf(object), nullable=False),
        sa.Column("crashes", sa.Integer(), nullable=False),
        sa.Column("deferrals", sa.Integer(), nullable=False),
        sa.Column("pauses", sa.Integer(), nullable=False),
        sa.Column("probe", sa.Boolean(), nullable=False),
        sa.Column("pause_requested", sa.Boolean(), nullable=False),
        sa.Column("rerun", sa.Boolean(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", UtcTime(), nullable=True),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("progress", JsonOf(object), nullable=False),
        sa.Column("summary", JsonOf(object), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.Column("started_at", UtcTime(), nullable=True),
        sa.Column("attempted_at", UtcTime(), nullable=True),
        sa.Column("finished_at", UtcTime(), nullable=True),
        sa.CheckConstraint(
            "(finished_at IS NOT NULL) = (state IN ('cancelled', 'success', 'failed'))",
            name=op.f("ck_headgate_jobs_finished"),
        ),
        sa.CheckConstraint(
            "(lease_until IS NOT NULL) = (state IN ('running', 'cancelling'))",
            name=op.f("ck_headgate_jobs_lease"),
        ),
        sa.CheckConstraint("lane IN ('hot', 'cold')", name=op.f("ck_headgate_jobs_lane")),
        sa.CheckConstraint(
            "mode IN ('full', 'since', 'limit', 'history')", name=op.f("ck_headgate_jobs_mode")
        ),
        sa.CheckConstraint(
            "state <> 'pending' OR turn IS NOT NULL OR wake_at IS NOT NULL",
            name=op.f("ck_headgate_jobs_wakes"),
        ),
        sa.CheckConstraint(
            "state IN ('pending', 'running', 'paused', 'cancelling', "
            "'cancelled', 'success', 'failed')",
            name=op.f("ck_headgate_jobs_state"),
        ),
        sa.CheckConstraint("turn IS NULL OR state = 'pending'", name=op.f("ck_headgate_jobs_turn")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_headgate_jobs")),
    )
    op.create_index(
        "ix_headgate_jobs_asleep",
        "headgate_jobs",
        ["lane", "sync", "wake_at"],
        **_where("state = 'pending' AND turn IS NULL"),
    )
    op.create_index(
        "ix_headgate_jobs_cancelling",
        "headgate_jobs",
        ["wake_at"],
        **_where("state = 'cancelling'"),
    )
    op.create_index(
        "ix_headgate_jobs_ended",
        "headgate_jobs",
        ["sync", "state"],
        **_where("state IN ('cancelled', 'success', 'failed')"),
    )
    op.create_index(
        "ix_headgate_jobs_claimed",
        "headgate_jobs",
        ["lease_until"],
        **_where("state IN ('running', 'cancelling')"),
    )
    op.create_index(
        "ix_headgate_jobs_queued",
        "headgate_jobs",
        ["lane", "sync", "turn", "wake_at", "id"],
        **_where("state = 'pending' AND turn IS NOT NULL"),
    )
    op.create_index("ix_headgate_jobs_of_user", "headgate_jobs", ["user_id", "id"])
    op.create_index(
        "ix_headgate_jobs_paused",
        "headgate_jobs",
        ["reason", "provider", "wake_at", "sync"],
        **_where("state = 'paused'"),
    )
    op.create_index(
        "ix_headgate_jobs_turn_of_user",
        "headgate_jobs",
        ["lane", "user_id", "turn", "sync"],
        **_where("state = 'pending' AND turn IS NOT NULL"),
    )
    op.create_index(
        "uq_headgate_jobs_active",
        "headgate_jobs",
        ["sync", "connection_id"],
        unique=True,
        **_where("state IN ('pending', 'running', 'paused', 'cancelling')"),
    )
    op.create_index(
        "uq_headgate_jobs_key",
        "headgate_jobs",
        ["user_id", "key"],
        unique=True,
        **_where('"key" IS NOT NULL'),
    )
    op.create_index(
        "uq_headgate_jobs_probing", "headgate_jobs", ["provider"], unique=True, **_where("probe")
    )
    op.create_table(
        "headgate_limiters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("begun_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_headgate_limiters")),
    )
    op.create_table(
        "headgate_records",
        sa.Column("sync", sa.Text(), nullable=False),
        sa.Column("connection_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("data", JsonOf(object), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("sync", "connection_id", "key", name=op.f("pk_headgate_records")),
    )
    op.create_table(
        "headgate_removed_connections",
        sa.Column("connection_id", sa.Text(), nullable=False),
        sa.Column("removed_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("connection_id", name=op.f("pk_headgate_removed_connections")),
    )
    op.create_table(
        "headgate_users",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_headgate_users")),
    )
    op.create_table(
        "headgate_workers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("abilities", JsonOf(object), nullable=False),
        sa.Column("started_at", UtcTime(), nullable=False),
        sa.Column("expires_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_headgate_workers")),
    )
