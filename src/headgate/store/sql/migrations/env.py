"""Alembic's entry point: migrate on the connection that `store/sql/schema.py` hands over."""

from alembic import context

from headgate.store.sql.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite cannot alter most of a table in place; Alembic then copies it.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
