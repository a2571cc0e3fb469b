"""The settings of health history: the clients at Fitbit and at Strava."""

from headgate.connectors.fitbit.settings import FitbitSettings
from headgate.connectors.strava.settings import StravaSettings


class HealthHistorySettings(FitbitSettings, StravaSettings):
    """The settings of both providers."""
