"""Fitbit, read through the Google Health API v4; `fitbit()` describes its API."""

from typing import TYPE_CHECKING

from headgate.base.lazy import lazy_names

if TYPE_CHECKING:
    from headgate.connectors.fitbit.api import FitbitArguments, fitbit
    from headgate.connectors.fitbit.days import ROLLUPS, FitbitDays
    from headgate.connectors.fitbit.recent import DAYS_MAX, FitbitRecent
    from headgate.connectors.fitbit.settings import FitbitSettings
else:
    __getattr__ = lazy_names(__name__)

__all__ = [
    "DAYS_MAX",
    "ROLLUPS",
    "FitbitArguments",
    "FitbitDays",
    "FitbitRecent",
    "FitbitSettings",
    "fitbit",
]
