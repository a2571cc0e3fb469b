"""Benchmarks of activity streams."""
