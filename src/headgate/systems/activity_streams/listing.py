"""Lists activities: turns a page of Strava's list into records, and into items to fetch."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from headgate import Context, Lane, NewItem, Record
from headgate.connectors.strava import PER_PAGE, StravaActivity, list_activities
from headgate.systems.activity_streams.names import ACTIVITIES, COLLECTION, activity_id, details_id

#: The list starts this far in the future: athletes' clocks and Strava's may be ahead of ours.
AHEAD = timedelta(days=1)
#: How far the next list overlaps the last one: activities may be uploaded late.
OVERLAP = timedelta(days=7)
_SECOND = timedelta(seconds=1)


class ActivityListing(msgspec.Struct, frozen=True):
    """A page of an athlete's activities, the newest first."""

    #: Without those that the page before had.
    found: Sequence[StravaActivity]
    #: The next page ends before this time; None: there is nothing older.
    before: datetime | None
    #: The activities of the second that the next page has too.
    repeated: tuple[int, ...] = ()

    @property
    def records(self) -> list[Record]:
        """The records of the activities, with Strava's fields."""
        return [Record(str(each.id), each.data) for each in self.found]


async def read_page(
    ctx: Context, before: datetime | None, repeated: Sequence[int] = ()
) -> ActivityListing:
    """Return the activities before that time, within the range and limit of the job.

    `repeated` are those of the last page that this one has too.
    """
    before = before or ctx.clock.now() + AHEAD
    page = await list_activities(ctx.http, before=before, after=ctx.since or _listed_until(ctx))
    found = [each for each in page if each.id not in repeated]
    if ctx.limit is not None and len(found) >= ctx.limit - ctx.records:
        return ActivityListing(found[: ctx.limit - ctx.records], None)
    following = _next(page, before)
    if following is None:
        return ActivityListing(found, None)
    last = tuple(each.id for each in page if each.start == page[-1].start)
    return ActivityListing(found, following, last)


def mark_of_list(ctx: Context) -> str | None:
    """Return the mark of a list that begins now: up to then, the next one need not look.

    None, if the list leaves out what is older than a time, or is cut off.
    """
    if ctx.since is not None or ctx.limit is not None:
        return None
    return (ctx.clock.now() - OVERLAP).isoformat()


def _listed_until(ctx: Context) -> datetime | None:
    """The mark of the last list; None: there was none, or everything is wanted."""
    return datetime.fromisoformat(ctx.high_water) if isinstance(ctx.high_water, str) else None


def _next(found: Sequence[StravaActivity], before: datetime) -> datetime | None:
    if not found:
        return None
    # A second after the last one's start: another may have begun in the same second.
    following = found[-1].start + _SECOND
    if following < before:
        return following
    # Nothing older came. If a full page is all of one second, skip that second.
    return before - _SECOND if len(found) >= PER_PAGE else None


def stream_item(ctx: Context, found: StravaActivity, lane: Lane) -> NewItem:
    """Return the item for an activity's streams; without a streams id it is unavailable."""
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
    """Return the item for reading an activity in full."""
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
