"""What an operator sets for health history: who we are at Fitbit and at Strava."""

from headgate.connectors.fitbit.settings import FitbitSettings
from headgate.connectors.strava.settings import StravaSettings


class HealthHistorySettings(FitbitSettings, StravaSettings):
    """Both providers."""
