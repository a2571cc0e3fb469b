"""Schedules and their ticks on a SQL database."""
