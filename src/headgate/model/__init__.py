"""Frozen values and the state machines: no I/O, no clock, no randomness."""
