"""Users' connections to providers, with encrypted credentials."""

import sqlalchemy as sa
from alembic import op

from headgate.store.sql.types import JsonOf, UtcTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the connections, and the list of those that are being made."""
    op.create_table(
        "connections",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("external_id", sa.Text(), nullable=True),
        sa.Column("scopes", JsonOf[object](object), nullable=False),
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
            "state IN ('active', 'paused', 'needs_reauth')", name=op.f("ck_connections_state")
        ),
        sa.CheckConstraint(
            "(lease_holder IS NULL) = (lease_until IS NULL)", name=op.f("ck_connections_lease")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_connections")),
    )
    named = sa.text("external_id IS NOT NULL")
    op.create_index(
        "uq_connections_account",
        "connections",
        ["user_id", "source", "external_id"],
        unique=True,
        sqlite_where=named,
        postgresql_where=named,
    )
    op.create_index("ix_connections_of_user", "connections", ["user_id", "id"])
    op.create_index("ix_connections_key", "connections", ["key_id", "id"])
    op.create_table(
        "connect_attempts",
        sa.Column("state_hash", sa.Text(), nullable=False),
        sa.Column("session_hash", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("connection_id", sa.Text(), nullable=True),
        sa.Column("redirect_uri", sa.Text(), nullable=False),
        sa.Column("sealed_verifier", sa.LargeBinary(), nullable=False),
        sa.Column("expires_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("state_hash", name=op.f("pk_connect_attempts")),
    )
    op.create_index("ix_connect_attempts_expiry", "connect_attempts", ["expires_at"])
