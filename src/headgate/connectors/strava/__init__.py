"""Strava, whichever way data flows: `strava()` says what is true of it for everybody."""

from headgate.connectors.strava.api import StravaApi, strava
from headgate.connectors.strava.uploads import StravaUploads

__all__ = ["StravaApi", "StravaUploads", "strava"]
