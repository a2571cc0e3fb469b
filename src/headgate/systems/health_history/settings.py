"""The settings of health history: the clients at Fitbit and at Strava, and the live sync."""

from pydantic import Field, ValidationInfo, field_validator

from headgate.connectors import refuse_both
from headgate.connectors.fitbit import DAYS_MAX, FitbitSettings
from headgate.connectors.strava import StravaSettings

#: The days that the live sync reads, today included: most wearables are synced within two days.
LIVE_DAYS = 3


class HealthHistorySettings(FitbitSettings, StravaSettings):
    """The settings of both providers, and of the live sync."""

    #: How many days the live sync reads, today included.
    health_history_live_days: int = Field(default=LIVE_DAYS, ge=1, le=DAYS_MAX)
    #: When the live sync runs by itself: so that no user's data is older than this, such as `1h`;
    #: or by a cron expression, in UTC. With neither, it runs only when somebody starts it.
    health_history_live_fresh_within: str | None = None
    health_history_live_cron: str | None = None

    @field_validator("health_history_live_cron")
    @classmethod
    def _one_of_both(cls, cron: str | None, info: ValidationInfo) -> str | None:
        return refuse_both(cron, info, "health_history_live_fresh_within")
