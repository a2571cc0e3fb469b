"""Adapters that carry hints: within a process, between users of a SQLite file, over Postgres."""
