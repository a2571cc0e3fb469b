"""Limiters outside the store: in Redis, and in the memory of one process."""
