"""Finding activities: a page of the list becomes records, and items to fetch."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from headgate import Context, Lane, NewItem, Record
from headgate.connectors.strava.activities import PER_PAGE, StravaActivity, list_activities
from headgate.systems.activity_streams.names import ACTIVITIES, COLLECTION, activity_id, details_id

#: Where a list begins: athletes may be ahead of our clock, and so may Strava be.
AHEAD = timedelta(days=1)
_SECOND = timedelta(seconds=1)


class ActivityListing(msgspec.Struct, frozen=True):
    """Some of an athlete's activities, the newest first."""

    found: Sequence[StravaActivity]
    #: Where the next page begins; None: there is nothing older.
    before: datetime | None

    @property
    def records(self) -> list[Record]:
        """What Strava says of each."""
        return [Record(str(each.id), each.data) for each in self.found]


async def read_page(ctx: Context, before: datetime | None) -> ActivityListing:
    """The activities before that moment, as far as the job is about them."""
    before = before or ctx.clock.now() + AHEAD
    found = await list_activities(ctx.http, before=before, after=ctx.since)
    if ctx.limit is not None and len(found) >= ctx.limit - ctx.records:
        return ActivityListing(found[: ctx.limit - ctx.records], None)
    return ActivityListing(found, _next(found, before))


def _next(found: Sequence[StravaActivity], before: datetime) -> datetime | None:
    if not found:
        return None
    # A second later than the last: another may have begun in the same one.
    following = found[-1].start + _SECOND
    if following < before:
        return following
    # Nothing older came. A whole page of one and the same second is passed over.
    return before - _SECOND if len(found) >= PER_PAGE else None


def stream_item(ctx: Context, found: StravaActivity, lane: Lane) -> NewItem:
    """What stands for the streams of an activity; without any to ask for it is unavailable."""
    return NewItem(
        id=activity_id(ctx.connection_id, found.id),
        collection=COLLECTION,
        user_id=ctx.user_id,
        connection_id=ctx.connection_id,
        external_id=found.streams_id,
        start_time=found.start,
        lane=lane,
    )


def activity_item(ctx: Context, found: StravaActivity) -> NewItem:
    """What stands for reading an activity in full."""
    own = activity_id(ctx.connection_id, found.id)
    return NewItem(
        id=details_id(own),
        collection=ACTIVITIES,
        user_id=ctx.user_id,
        connection_id=ctx.connection_id,
        external_id=str(found.id),
        start_time=found.start,
        lane=Lane.HOT,
    )
