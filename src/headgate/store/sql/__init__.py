"""The SQL store: one set of tables and queries for SQLite and Postgres."""
