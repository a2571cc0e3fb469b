"""Agents that run in the background: lanes, heartbeat, sweeper, and the supervisor of them all."""
