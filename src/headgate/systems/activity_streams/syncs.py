"""The two syncs and the two collections of items."""

from collections.abc import Sequence

from headgate import Collection, ItemRetryPolicy, Lane, Mode, RetryPolicy, Sync
from headgate.connectors.strava import READ_SCOPES, StravaArguments
from headgate.systems.activity_streams.attempts import log_attempt
from headgate.systems.activity_streams.backfill import StravaStreams
from headgate.systems.activity_streams.live import StravaLive
from headgate.systems.activity_streams.names import ACTIVITIES, COLLECTION, LIVE, STREAMS
from headgate.systems.activity_streams.settings import ActivityStreamsSettings

#: A batch of a backfill takes two minutes at its pace, and longer while others share the budget;
#: live work waits for the budget only for seconds.
LIVE_CHUNK_S_MAX, STREAMS_CHUNK_S_MAX = 600.0, 1800.0
#: An item that crashes its workers is given up after five crashes; its job must survive them.
RETRY = RetryPolicy(crashes_max=30)
#: Streams are tried three times, with pauses of one and five minutes, and what they say when their
#: workers are lost again and again is the design's word.
STREAM_ITEMS = Collection(
    name=COLLECTION,
    title="Streams of activities",
    retry=ItemRetryPolicy(
        failures_max=3, backoff_s=(60.0, 300.0, 1800.0), lost_error="fetching_timeout_cleanup"
    ),
    on_attempt=log_attempt,
    fetched_by=STREAMS,
    fetch_options={"listing": False},
)
ACTIVITY_ITEMS = Collection(name=ACTIVITIES, title="Activities in full")


def activity_streams(strava: StravaArguments) -> tuple[Sync, Sync]:
    """Return the live sync and the streams sync of one client at Strava."""
    return (
        Sync(
            name=LIVE,
            source=StravaLive(**strava),
            modes=(Mode.FULL, Mode.SINCE, Mode.LIMIT),
            retry=RETRY,
            collections=(ACTIVITY_ITEMS, STREAM_ITEMS),
            chunk_s_max=LIVE_CHUNK_S_MAX,
        ),
        Sync(
            name=STREAMS,
            source=StravaStreams(**strava),
            modes=(Mode.FULL,),
            lane=Lane.COLD,
            retry=RETRY,
            collections=(STREAM_ITEMS,),
            chunk_s_max=STREAMS_CHUNK_S_MAX,
        ),
    )


def syncs(settings: ActivityStreamsSettings, public_url: str) -> Sequence[Sync]:
    """Return the two syncs for these settings."""
    return activity_streams(settings.strava(public_url, READ_SCOPES))
