"""The two syncs from a user's Fitbit to their Strava: the import of history, and the live sync.

They share budgets, connections and records. Whichever finds an exercise first uploads it, and the
other knows of it.
"""

from collections.abc import Sequence

from headgate import DayCost, Lane, Mode, Sync
from headgate.connectors.fitbit import ROLLUPS, FitbitArguments, FitbitDays, FitbitRecent
from headgate.connectors.strava import UPLOAD_SCOPES, StravaArguments, StravaUploads
from headgate.systems.health_history.settings import LIVE_DAYS, HealthHistorySettings

NAME, LIVE = "health-history", "health-history-live"
#: A day with fifty exercises takes eleven minutes at the pace of Strava's 15-minute limit, and
#: longer while others share it.
CHUNK_S_MAX = 1800.0
#: Requests of a day: one list of exercises, a roll-up of each kind, and a file for each exercise;
#: at Strava, an upload and a poll for each. Users have an exercise on every fifth day, or three in
#: two days; the sandbox's users have one in two. `tests/systems/health_history/test_sync` imports
#: thirty of their days and counts at the providers.
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


def health_history(*, fitbit: FitbitArguments, strava: StravaArguments, name: str = NAME) -> Sync:
    """Return the sync from a user's Fitbit to their Strava, for these two clients."""
    return Sync(
        name=name,
        source=FitbitDays(**fitbit),
        destination=StravaUploads(**strava),
        modes=(Mode.HISTORY,),
        delivers_once=True,
        day_costs=DAY_COSTS,
        chunk_s_max=CHUNK_S_MAX,
    )


def health_history_live(
    *, fitbit: FitbitArguments, strava: StravaArguments, days: int = LIVE_DAYS, name: str = LIVE
) -> Sync:
    """Return the sync that keeps the last `days` fresh, for the same two clients."""
    return Sync(
        name=name,
        source=FitbitRecent(days=days, **fitbit),
        destination=StravaUploads(**strava),
        modes=(Mode.SINCE, Mode.FULL),
        lane=Lane.HOT,
        stored_as=NAME,
        delivers_once=True,
        chunk_s_max=CHUNK_S_MAX,
    )


def syncs(settings: HealthHistorySettings, public_url: str) -> Sequence[Sync]:
    """Return the two syncs for these settings."""
    fitbit, strava = settings.fitbit(public_url), settings.strava(public_url, UPLOAD_SCOPES)
    return [
        health_history(fitbit=fitbit, strava=strava),
        health_history_live(fitbit=fitbit, strava=strava, days=settings.health_history_live_days),
    ]
