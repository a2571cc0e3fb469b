"""The stores: SQL (SQLite and Postgres)."""
