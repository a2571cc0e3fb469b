"""Limiters that are not the store's own: Redis, and one process's memory."""
