"""The health history: what a Fitbit has measured, day by day from the newest to the oldest.

Exercises become activities at Strava, and the sums of each day are kept here.

Run it with `headgate worker --app headgate.systems.health_history:app`; what it needs is read from
the environment when `app` is first asked for. Or build it into an application of your own:

    app = headgate.App(
        "sqlite:///headgate.db",
        syncs=[health_history(fitbit=fitbit(…), strava=strava(…))],
        entitlement=headgate.paid_history,
    )
"""

import os
from collections.abc import Mapping
from functools import cache

from headgate import App, DayCost, InvalidInput, Mode, Secret, Sync, paid_history
from headgate.connectors.fitbit import FitbitApi, FitbitDays, fitbit
from headgate.connectors.fitbit.days import ROLLUPS
from headgate.connectors.strava import StravaApi, StravaUploads, strava
from headgate.connectors.strava.api import UPLOAD_SCOPES
from headgate.connectors.strava.api import URL as STRAVA_URL
from headgate.settings import Settings
from headgate.systems.environment import is_on, needed, url

NAME = "health-history"
#: A day with fifty exercises takes eleven minutes at the pace that Strava's quarter of an hour
#: allows, and longer while others share it.
CHUNK_S_MAX = 1800.0
#: One list of exercises and a roll-up of each kind, and a file for each exercise; at Strava, an
#: upload for each, and a look at what became of it. People who move have an exercise on every
#: fifth day, or three in two days; the sandbox's have one in two. `tests/flow/test_health_history`
#: imports sixty of their days and counts at the providers.
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
    """The way from a user's Fitbit to their Strava, for these two applications."""
    return Sync(
        name=name,
        source=FitbitDays(**fitbit),
        destination=StravaUploads(**strava),
        modes=(Mode.HISTORY,),
        day_costs=DAY_COSTS,
        chunk_s_max=CHUNK_S_MAX,
    )


def from_environment(environ: Mapping[str, str]) -> App:
    """The application that the environment asks for; InvalidInput where something is missing."""
    settings = Settings()
    sync = health_history(
        fitbit=fitbit(
            client_id=needed(environ, "HEADGATE_FITBIT_CLIENT_ID"),
            client_secret=Secret(needed(environ, "HEADGATE_FITBIT_CLIENT_SECRET")),
            redirect_uris=(f"{settings.site_url}/connected/fitbit",),
            url=url(environ, "HEADGATE_FITBIT_URL"),
        ),
        strava=strava(
            client_id=needed(environ, "HEADGATE_STRAVA_CLIENT_ID"),
            client_secret=Secret(needed(environ, "HEADGATE_STRAVA_CLIENT_SECRET")),
            redirect_uris=(f"{settings.site_url}/connected/strava",),
            scopes=UPLOAD_SCOPES,
            url=url(environ, "HEADGATE_STRAVA_URL") or STRAVA_URL,
        ),
    )
    return App(
        settings.database,
        syncs=[sync],
        redis=settings.redis,
        worker=settings.worker(),
        entitlement=paid_history if is_on(environ, "HEADGATE_PAID_HISTORY") else None,
    )


@cache
def _app() -> App:
    return from_environment(os.environ)


def __getattr__(name: str) -> App:
    """`app`, made when it is first asked for: to import this module changes and needs nothing."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return _app()
    except InvalidInput as error:
        raise AttributeError(str(error)) from error
