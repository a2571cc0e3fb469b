"""Signals: within a process, between processes on a SQLite file, and over Postgres."""
