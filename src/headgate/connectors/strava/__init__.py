"""Strava, as a source and as a destination; `strava()` describes its API."""

from headgate.connectors.strava.api import StravaApi, strava
from headgate.connectors.strava.uploads import StravaUploads

__all__ = ["StravaApi", "StravaUploads", "strava"]
