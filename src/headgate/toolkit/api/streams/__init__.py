"""Streams of events to clients: of a job, and of pages of rows."""
