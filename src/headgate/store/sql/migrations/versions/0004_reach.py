"""What reaching Headgate over HTTP takes: destinations, plans, API keys, remembered requests."""

import sqlalchemy as sa
from alembic import op

from headgate.store.sql.types import JsonOf, UtcTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Give jobs a destination and somebody to blame, and create the tables."""
    for name in ("destination", "destination_connection_id", "provider"):
        op.add_column("jobs", sa.Column(name, sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("attempted_at", UtcTime(), nullable=True))
    op.execute("UPDATE jobs SET provider = source")
    op.drop_index("ix_jobs_paused", "jobs")
    op.drop_index("ix_jobs_probing", "jobs")
    paused, probing = sa.text("state = 'paused'"), sa.text("probe")
    op.create_index(
        "ix_jobs_paused",
        "jobs",
        ["reason", "provider", "wake_at"],
        sqlite_where=paused,
        postgresql_where=paused,
    )
    op.create_index(
        "ix_jobs_probing", "jobs", ["provider"], sqlite_where=probing, postgresql_where=probing
    )
    op.create_table(
        "users",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("revoked_at", UtcTime(), nullable=True),
        sa.CheckConstraint("role IN ('reader', 'user', 'admin')", name=op.f("ck_api_keys_role")),
        sa.CheckConstraint("(user_id IS NULL) = (role = 'admin')", name=op.f("ck_api_keys_owner")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
    )
    op.create_table(
        "idempotent_requests",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_hash", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("headers", JsonOf[object](object), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("expires_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "key", name=op.f("pk_idempotent_requests")),
    )
    op.create_index("ix_idempotent_requests_expiry", "idempotent_requests", ["expires_at"])
