"""Benchmarks: figures next to the bare driver's in the same run, never a timing assert in a test.

Each runs as `python -m bench.NAME [--quick]`, prints a table for people, and ends with one line of
JSON. Trust the ratios: absolute figures belong to the machine they were measured on.
"""
