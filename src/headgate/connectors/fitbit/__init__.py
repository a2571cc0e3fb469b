"""Fitbit, which today is the Google Health API v4: `fitbit()` says what is true of it."""

from headgate.connectors.fitbit.api import FitbitApi, fitbit
from headgate.connectors.fitbit.days import FitbitDays

__all__ = ["FitbitApi", "FitbitDays", "fitbit"]
