"""Items of any kind: any media type, any number of failures; and gone with their connection."""

import sqlalchemy as sa
from alembic import op

from headgate.store.sql.types import JsonOf, UtcTime

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Say of documents, failures and connections what the engine says of them now."""
    _describe_documents()
    _allow_any_failures()
    op.create_table(
        "removed_connections",
        sa.Column("connection_id", sa.Text(), nullable=False),
        sa.Column("removed_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("connection_id", name=op.f("pk_removed_connections")),
    )


def _describe_documents() -> None:
    op.add_column("item_documents", sa.Column("media_type", sa.Text(), nullable=True))
    op.add_column("item_documents", sa.Column("attributes", JsonOf[object](object), nullable=True))
    made = (
        "jsonb_build_object('channels', channels, 'point_count', point_count)"
        if op.get_bind().dialect.name == "postgresql"
        else "json_object('channels', json(channels), 'point_count', point_count)"
    )
    op.execute(f"UPDATE item_documents SET media_type = 'application/json', attributes = {made}")
    # An activity has neither channels nor points: it was said only because something had to be.
    op.execute(
        "UPDATE item_documents SET attributes = '{}' WHERE item_id IN "
        "(SELECT id FROM items WHERE collection = 'strava.activities')"
    )
    with op.batch_alter_table("item_documents") as table:
        table.alter_column("media_type", existing_type=sa.Text(), nullable=False)
        table.alter_column("attributes", existing_type=JsonOf[object](object), nullable=False)
        for name in ("channels", "point_count", "source"):
            table.drop_column(name)


def _allow_any_failures() -> None:
    op.drop_index("ix_items_eligible_of_all", "items")
    op.drop_index("ix_items_eligible", "items")
    with op.batch_alter_table("items") as table:
        table.drop_constraint(op.f("ck_items_spent"), type_="check")
        table.create_check_constraint(
            op.f("ck_items_claimable"),
            "next_attempt_at IS NULL OR state IN ('pending', 'failed', 'deferred')",
        )
    eligible = sa.text(
        "state IN ('pending', 'failed', 'deferred') AND external_id IS NOT NULL "
        "AND next_attempt_at IS NOT NULL"
    )
    op.create_index(
        "ix_items_eligible",
        "items",
        [
            "collection",
            "connection_id",
            sa.text("lane DESC"),
            "start_time",
            "id",
            "next_attempt_at",
        ],
        sqlite_where=eligible,
        postgresql_where=eligible,
    )
