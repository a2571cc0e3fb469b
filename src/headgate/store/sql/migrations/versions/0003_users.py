"""Users: their last login, their preferences, and a pause of their schedules.

Who was there before counts as seen at the time of the migration, so that nobody is taken for
inactive because nobody wrote down when they came.
"""

import sqlalchemy as sa
from alembic import op

from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.types import JsonOf, UtcTime

revision = "0003"
down_revision = "0002"

_users = sa.table(
    "headgate_users",
    sa.column("id", sa.Text()),
    sa.column("last_login_at", UtcTime()),
    sa.column("preferences", JsonOf(object)),
    sa.column("created_at", UtcTime()),
    sa.column("updated_at", UtcTime()),
)
_connections = sa.table("headgate_connections", sa.column("user_id", sa.Text()))


def upgrade() -> None:
    """Add the columns, and a row for every user who has connected."""
    with op.batch_alter_table("headgate_users") as table:
        table.alter_column("plan", existing_type=sa.Text(), nullable=True)
        table.add_column(sa.Column("last_login_at", UtcTime(), nullable=True))
        table.add_column(sa.Column("preferences", JsonOf(object), nullable=True))
        table.add_column(sa.Column("paused_at", UtcTime(), nullable=True))
        table.add_column(sa.Column("paused_by", sa.Text(), nullable=True))
        table.add_column(sa.Column("pause_reason", sa.Text(), nullable=True))
        table.add_column(sa.Column("created_at", UtcTime(), nullable=True))
        table.create_check_constraint("paused", "(paused_at IS NULL) = (paused_by IS NULL)")
    config = op.get_context().config
    assert config is not None, "schema.upgrade passes a configuration"
    _fill(config.attributes["now"])
    with op.batch_alter_table("headgate_users") as table:
        table.alter_column("preferences", existing_type=JsonOf(object), nullable=False)
        table.alter_column("created_at", existing_type=UtcTime(), nullable=False)


def _fill(now: Moment) -> None:
    """Complete the rows that exist, and add those that are missing."""
    nothing: sa.ColumnElement[object] = sa.literal({}, JsonOf(object))
    # When a user came is unknown; the last change of the row is the nearest time that is known.
    op.execute(
        sa.update(_users).values(
            last_login_at=now.at(), preferences=nothing, created_at=_users.c.updated_at
        )
    )
    known = sa.select(_users.c.id)
    missing = (
        sa.select(_connections.c.user_id, now.at(), nothing, now.at(), now.at())
        .where(_connections.c.user_id.not_in(known))
        .distinct()
    )
    columns = ["id", "last_login_at", "preferences", "created_at", "updated_at"]
    op.execute(sa.insert(_users).from_select(columns, missing))
