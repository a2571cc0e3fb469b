"""The tests, and the servers and helpers that they share."""
