"""Fitbit, read through the Google Health API v4; `fitbit()` describes its API."""

from headgate.connectors.fitbit.api import FitbitApi, fitbit
from headgate.connectors.fitbit.days import FitbitDays

__all__ = ["FitbitApi", "FitbitDays", "fitbit"]
