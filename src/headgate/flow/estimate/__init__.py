"""Estimates of when a job ends: the forecast before it starts, and the time left while it runs."""
