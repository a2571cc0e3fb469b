"""Fitbit, read through the Google Health API v4; `fitbit()` describes its API."""

from headgate.connectors.fitbit.api import FitbitApi, fitbit
from headgate.connectors.fitbit.days import FitbitDays
from headgate.connectors.fitbit.recent import FitbitRecent

__all__ = ["FitbitApi", "FitbitDays", "FitbitRecent", "fitbit"]
