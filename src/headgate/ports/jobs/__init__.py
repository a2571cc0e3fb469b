"""The store of jobs, their events and their workers."""
