"""Roam, read through its backend API; `roam()` describes the API."""

from headgate.connectors.roam.api import RoamApi, SlowRequest, roam

__all__ = ["RoamApi", "SlowRequest", "roam"]
