"""Frozen values and the state tables: no I/O, no clock, no randomness."""
