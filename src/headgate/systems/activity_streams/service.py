"""Activities and their streams, as an application asks for them."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from headgate import (
    ActiveJobExists,
    App,
    Connection,
    InvalidInput,
    Item,
    ItemState,
    Job,
    JobState,
    JsonObject,
    Lane,
    Mode,
    NotFound,
    StoredDocument,
    SubmitResult,
    WindowUse,
)
from headgate.connectors.strava.api import NAME
from headgate.connectors.strava.streams import StreamAttributes
from headgate.systems.activity_streams import kept
from headgate.systems.activity_streams.events import StravaEvent, WebhookHandler, WebhookResult
from headgate.systems.activity_streams.names import COLLECTION, LIVE, STREAMS

LIST_MAX = 1000
#: How far before the last list the next one begins: activities come in late.
OVERLAP = timedelta(days=7)
#: Live jobs among which the last list is looked for; where it is not, everything is listed.
JOBS_MAX = 50


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """An activity: where its streams stand, and what is known of it."""

    item: Item
    #: What the live sync stored of it (name, sport_type, start_date, distance, moving_time, laps,
    #: …); None where only the stream item is known.
    details: JsonObject | None


class StreamDocument(msgspec.Struct, frozen=True):
    """Streams that were fetched."""

    stored: StoredDocument
    attributes: StreamAttributes

    @staticmethod
    def of(stored: StoredDocument) -> "StreamDocument":
        """The streams that are stored there."""
        return StreamDocument(stored, msgspec.convert(stored.attributes, StreamAttributes))


class Streams(msgspec.Struct, frozen=True):
    """Where an activity's streams stand, and the streams once they were fetched."""

    item: Item
    document: StreamDocument | None


class StreamStats(msgspec.Struct, frozen=True, kw_only=True):
    """How the streams of everybody stand."""

    #: How many are in each state.
    states: dict[str, int]
    #: Of the failed: how many have failed so often.
    retries: dict[int, int]
    #: Refused by Strava's limit in the last 24 hours.
    limited_24h: int
    #: Failed for good, until they are reset.
    stuck: int
    #: How Strava's budget is used; empty while the limiter is away.
    windows: tuple[WindowUse, ...]
    #: By user, where it was asked for: how many are in each state.
    athletes: dict[str, dict[str, int]] | None


class ActivityStreams:
    """What an application can ask about activities and do to them."""

    def __init__(self, app: App) -> None:
        """Ask `app`, which must be open, and have the syncs of `activity_streams`."""
        self._app = app

    # ---- looking -------------------------------------------------------------------------------

    async def find(self, activity_id: str, *, user_id: str | None = None) -> Activity:
        """The activity; NotFound where it is not there or not theirs."""
        return await self.describe(await self._item(activity_id, user_id))

    async def describe(self, item: Item) -> Activity:
        """The activity of a stream item, with what is known of it."""
        return (await self._with_details([item]))[0]

    async def list(
        self, *, user_id: str, limit: int = 50, after: str | None = None
    ) -> Sequence[Activity]:
        """A user's activities in the order of their ids, those after the id `after`."""
        if not 1 <= limit <= LIST_MAX:
            raise InvalidInput("limit", f"must be between 1 and {LIST_MAX}")
        found = await self._app.items.list(COLLECTION, user_id=user_id, limit=limit, after=after)
        return await self._with_details(found)

    async def streams(self, activity_id: str, *, user_id: str | None = None) -> Streams:
        """The activity's streams, by one statement; NotFound likewise."""
        served = await self._app.items.serve(activity_id, user_id=user_id)
        item, stored = _of_streams(served.item), served.document
        return Streams(item, None if stored is None else StreamDocument.of(stored))

    async def stats(self, *, user_id: str | None = None) -> StreamStats:
        """How the streams stand; with a user, that user's progress too."""
        counted = await self._app.items.stats(COLLECTION, user_id=user_id)
        use = await self._app.budgets.find(NAME)
        athletes = None
        if user_id is not None and counted.of_user is not None:
            athletes = {user_id: _by_name(counted.of_user)}
        return StreamStats(
            states=_by_name(counted.states),
            retries=dict(counted.retries),
            limited_24h=counted.limited_24h,
            stuck=counted.stuck,
            windows=() if use is None else tuple(use.windows),
            athletes=athletes,
        )

    # ---- doing ---------------------------------------------------------------------------------

    async def reset(self, activity_id: str) -> Item:
        """Fetch an activity's streams afresh, whatever became of them, in the cold lane."""
        item = await self._item(activity_id, None)
        return await self._app.items.reset(item.id)

    async def sync_now(self, *, user_id: str, connection_id: str | None = None) -> SubmitResult:
        """Look for new activities now, in the hot lane; everything, where nobody has yet.

        ActiveJobExists while an event is being seen to, which takes seconds.
        """
        connection = await self._app.connections.resolve(
            NAME, user_id=user_id, connection_id=connection_id
        )
        since = await self._listed_until(connection)
        submitted = await self._app.jobs.ensure(
            LIVE,
            user_id=connection.user_id,
            connection_id=connection.id,
            mode=Mode.FULL if since is None else Mode.SINCE,
            since=since,
            lane=Lane.HOT,
            restart=True,
        )
        if not _lists(submitted.job):
            raise ActiveJobExists(submitted.job.id)
        return submitted

    async def backfill(self, *, user_id: str, connection_id: str | None = None) -> SubmitResult:
        """Fetch the streams of everything, in the cold lane; the active job, where there is one."""
        connection = await self._app.connections.resolve(
            NAME, user_id=user_id, connection_id=connection_id
        )
        listing = await self._listed_until(connection) is None
        return await self._fetch_the_rest(connection, listing=listing)

    async def heard(self, event: StravaEvent) -> WebhookResult:
        """Take an event in: durable before this returns, once however often it comes.

        Nothing is asked of Strava here. See `events.py` for what guarantees the rest.
        """
        return await WebhookHandler(self._app).hear(event, NAME)

    # ---- parts ---------------------------------------------------------------------------------

    async def _item(self, activity_id: str, user_id: str | None) -> Item:
        return _of_streams(await self._app.items.get(activity_id, user_id=user_id))

    async def _with_details(self, found: Sequence[Item]) -> Sequence[Activity]:
        details = await kept.details_of(self._app, found)
        return [Activity(item=item, details=details.get(item.id)) for item in found]

    async def _fetch_the_rest(self, connection: Connection, *, listing: bool) -> SubmitResult:
        return await self._app.jobs.ensure(
            STREAMS,
            user_id=connection.user_id,
            connection_id=connection.id,
            lane=Lane.COLD,
            options={"listing": listing},
        )

    async def _listed_until(self, connection: Connection) -> datetime | None:
        """Up to when activities have been listed, but for those that come late; None: never."""
        done = await self._app.jobs.list(
            user_id=connection.user_id,
            sync=LIVE,
            connection_id=connection.id,
            states=(JobState.SUCCESS,),
            limit=JOBS_MAX,
        )
        last = next((job for job in done if _lists(job)), None)
        return None if last is None else last.created_at - OVERLAP


def _of_streams(item: Item) -> Item:
    """The item, if it stands for an activity's streams; else NotFound."""
    if item.collection != COLLECTION:
        raise NotFound(f"there is no activity {item.id!r}")
    return item


def _lists(job: Job) -> bool:
    """Whether it looks for activities, and not only at those that events named."""
    options = job.params.get("options")
    return not (isinstance(options, dict) and options.get("listing") is False)


def _by_name(counts: Mapping[ItemState, int]) -> dict[str, int]:
    return {state.value: count for state, count in counts.items()}
