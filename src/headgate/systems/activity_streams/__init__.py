"""Activity streams: every second of every activity, fetched once, and served to its owner.

Two syncs share one application's budget at Strava. The live sync finds activities, reads their
details and laps, and fetches the streams of new ones at once; the streams sync fetches the rest in
the cold lane, the oldest first, and yields to live work.

Run it with `headgate worker --app headgate.systems.activity_streams:app`, or build it into an
application of your own:

    app = headgate.App("sqlite:///headgate.db", syncs=activity_streams(strava(…)))
    streams = ActivityStreams(app)
"""

import os
from functools import cache

from headgate import App, InvalidInput
from headgate.systems.activity_streams.events import Heard, StravaEvent
from headgate.systems.activity_streams.names import COLLECTION, LIVE, STREAMS, activity_id
from headgate.systems.activity_streams.service import (
    Activity,
    ActivityStreams,
    StreamDocument,
    Streams,
    StreamStats,
)
from headgate.systems.activity_streams.syncs import activity_streams, from_environment

__all__ = [
    "COLLECTION",
    "LIVE",
    "STREAMS",
    "Activity",
    "ActivityStreams",
    "Heard",
    "StravaEvent",
    "StreamDocument",
    "StreamStats",
    "Streams",
    "activity_id",
    "activity_streams",
    "from_environment",
]


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
