"""Schedules: what runs by itself, when, for whom, and who was skipped."""
