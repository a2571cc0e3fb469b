"""Adapters that keep jobs: SQL (SQLite and Postgres)."""
