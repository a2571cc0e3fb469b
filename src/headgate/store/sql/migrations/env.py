"""Alembic's entry point: it migrates on the connection from `store/sql/schema.py`."""

from alembic import context

given = context.config.attributes
context.configure(
    connection=given["connection"],
    target_metadata=given["schema"].metadata,
    version_table=given["schema"].version_table,
    # SQLite cannot alter most of a table in place; Alembic then copies it.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
