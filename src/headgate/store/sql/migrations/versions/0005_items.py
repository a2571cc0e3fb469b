"""Items that are fetched one by one, and what was fetched for them."""

import sqlalchemy as sa
from alembic import op

from headgate.store.sql.types import JsonOf, UtcTime

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_ELIGIBLE = (
    "state IN ('pending', 'failed', 'deferred') AND external_id IS NOT NULL "
    "AND retry_count < 3 AND next_attempt_at IS NOT NULL"
)
_IN_ORDER: list[str | sa.TextClause] = [sa.text("lane DESC"), "start_time", "id", "next_attempt_at"]


def upgrade() -> None:
    """Create the tables and the indexes that the queries stand on."""
    op.create_table(
        "items",
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
            "state IN ('pending', 'fetching', 'success', 'failed', 'deferred', 'unavailable')",
            name=op.f("ck_items_state"),
        ),
        sa.CheckConstraint("lane IN ('hot', 'cold')", name=op.f("ck_items_lane")),
        sa.CheckConstraint(
            "(lease_until IS NOT NULL) = (state = 'fetching')", name=op.f("ck_items_lease")
        ),
        sa.CheckConstraint(
            "(deferred_until IS NOT NULL) = (state = 'deferred')", name=op.f("ck_items_deferred")
        ),
        sa.CheckConstraint(
            "external_id IS NOT NULL OR state = 'unavailable'", name=op.f("ck_items_known")
        ),
        sa.CheckConstraint(
            "next_attempt_at IS NOT NULL OR state NOT IN ('pending', 'deferred')",
            name=op.f("ck_items_wakes"),
        ),
        sa.CheckConstraint(
            "next_attempt_at IS NULL OR (retry_count < 3 AND state IN "
            "('pending', 'failed', 'deferred'))",
            name=op.f("ck_items_spent"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_items")),
    )
    _partial("ix_items_eligible", ["collection", "connection_id", *_IN_ORDER], _ELIGIBLE)
    _partial("ix_items_eligible_of_all", ["collection", *_IN_ORDER], _ELIGIBLE)
    _partial("ix_items_fetching", ["lease_until"], "state = 'fetching'")
    _partial("ix_items_limited", ["collection", "limited_at"], "limited_at IS NOT NULL")
    op.create_index(
        "uq_items_external", "items", ["connection_id", "collection", "external_id"], unique=True
    )
    op.create_index("ix_items_counted", "items", ["collection", "state", "user_id", "retry_count"])
    op.create_table(
        "item_documents",
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("channels", JsonOf[object](object), nullable=False),
        sa.Column("point_count", sa.Integer(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("fetched_at", UtcTime(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("encoding", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("item_id", name=op.f("pk_item_documents")),
    )
    # A provider's events name an account: whose connections are to it?
    named = sa.text("external_id IS NOT NULL")
    op.create_index(
        "ix_connections_of_account",
        "connections",
        ["source", "external_id"],
        sqlite_where=named,
        postgresql_where=named,
    )


def _partial(name: str, columns: list[str | sa.TextClause], where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, "items", columns, sqlite_where=condition, postgresql_where=condition)
