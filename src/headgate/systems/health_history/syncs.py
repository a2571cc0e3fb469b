"""The sync from a user's Fitbit to their Strava."""

from collections.abc import Sequence

from headgate import DayCost, Mode, Sync
from headgate.connectors.fitbit import FitbitApi, FitbitDays
from headgate.connectors.fitbit.days import ROLLUPS
from headgate.connectors.strava import StravaApi, StravaUploads
from headgate.connectors.strava.api import UPLOAD_SCOPES
from headgate.systems.health_history.settings import HealthHistorySettings

NAME = "health-history"
#: A day with fifty exercises takes eleven minutes at the pace of Strava's 15-minute limit, and
#: longer while others share it.
CHUNK_S_MAX = 1800.0
#: Requests of a day: one list of exercises, a roll-up of each kind, and a file for each exercise;
#: at Strava, an upload and a poll for each. Users have an exercise on every fifth day, or three in
#: two days; the sandbox's users have one in two. `tests/flow/test_health_history` imports sixty of
#: their days and counts at the providers.
EXERCISES_LEAST, EXERCISES_MOST = 0.2, 1.5
DAY_COSTS = (
    DayCost(
        provider="fitbit",
        least=1 + len(ROLLUPS) + EXERCISES_LEAST,
        most=1 + len(ROLLUPS) + EXERCISES_MOST,
    ),
    DayCost(provider="strava", kind="upload", least=EXERCISES_LEAST, most=EXERCISES_MOST),
    DayCost(provider="strava", kind="read", least=EXERCISES_LEAST, most=EXERCISES_MOST),
)


def health_history(*, fitbit: FitbitApi, strava: StravaApi, name: str = NAME) -> Sync:
    """Return the sync from a user's Fitbit to their Strava, for these two clients."""
    return Sync(
        name=name,
        source=FitbitDays(**fitbit),
        destination=StravaUploads(**strava),
        modes=(Mode.HISTORY,),
        day_costs=DAY_COSTS,
        chunk_s_max=CHUNK_S_MAX,
    )


def syncs(settings: HealthHistorySettings, public_url: str) -> Sequence[Sync]:
    """Return the sync for these settings."""
    return [
        health_history(
            fitbit=settings.fitbit(public_url), strava=settings.strava(public_url, UPLOAD_SCOPES)
        )
    ]
