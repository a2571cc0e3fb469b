"""`ActivityStreams`, the system's API in Python: reads activities and streams, starts syncs."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate import App, InvalidInput, Item, ItemState, JobState, JsonObject, Lane, Mode, NotFound
from headgate.connectors.strava import NAME, StreamAttributes
from headgate.errors import ActiveJobExists
from headgate.systems.activity_streams import stored_details
from headgate.systems.activity_streams.events import StravaEvent, WebhookHandler, WebhookResult
from headgate.systems.activity_streams.listing import OVERLAP
from headgate.systems.activity_streams.names import COLLECTION, LIVE, STREAMS
from headgate.types import Connection, Job, StoredDocument, SubmitResult, WindowUse

LIST_MAX = 1000
#: How many live jobs are searched for the last list; if none has one, everything is listed.
JOBS_MAX = 50


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """An activity: the state of its streams, and its details."""

    item: Item
    #: Strava's fields (name, sport_type, start_date, distance, moving_time, laps, …); None if only
    #: the stream item is known.
    details: JsonObject | None


class StreamDocument(msgspec.Struct, frozen=True):
    """Stored streams, with their attributes."""

    stored: StoredDocument
    attributes: StreamAttributes

    @staticmethod
    def of(stored: StoredDocument) -> "StreamDocument":
        """Read the attributes of a stored document."""
        return StreamDocument(stored, msgspec.convert(stored.attributes, StreamAttributes))


class Streams(msgspec.Struct, frozen=True):
    """The state of an activity's streams, and the streams once they are fetched."""

    item: Item
    document: StreamDocument | None


class StreamStats(msgspec.Struct, frozen=True, kw_only=True):
    """The streams of all users, counted by state."""

    states: Mapping[ItemState, int]
    retries: Annotated[
        Mapping[str, int], Meta(description="Failed items, by the number of failures.")
    ]
    limited_24h: Annotated[int, Meta(description="Answers with 429 in the last 24 hours.")]
    stuck: Annotated[
        int, Meta(description="Items that have failed for good, until they are reset.")
    ]
    windows: Annotated[
        tuple[WindowUse, ...],
        Meta(description="The use of the provider's budget; empty if it cannot be read now."),
    ]
    athletes: Annotated[
        Mapping[str, Mapping[ItemState, int]] | None,
        Meta(description="The counts of the requested user."),
    ]


class ActivityStreams:
    """Reads activities and their streams, and starts syncs and backfills."""

    def __init__(self, app: App) -> None:
        """Use `app`, which must be open and have the syncs of this system."""
        self._app = app

    # ---- looking -------------------------------------------------------------------------------

    async def find(self, activity_id: str, *, user_id: str | None = None) -> Activity:
        """Return the activity; raises NotFound if it does not exist or is another user's."""
        return await self.describe(await self._item(activity_id, user_id))

    async def describe(self, item: Item) -> Activity:
        """Return the activity of a stream item, with its details."""
        return (await self._with_details([item]))[0]

    async def list(
        self, *, user_id: str, limit: int = 50, after: str | None = None
    ) -> Sequence[Activity]:
        """Return a user's activities in the order of their ids, after the id `after`."""
        if not 1 <= limit <= LIST_MAX:
            raise InvalidInput("limit", f"must be between 1 and {LIST_MAX}")
        found = await self._app.items.list(COLLECTION, user_id=user_id, limit=limit, after=after)
        return await self._with_details(found)

    async def streams(self, activity_id: str, *, user_id: str | None = None) -> Streams:
        """Return the activity's streams, with one query; raises NotFound like `find`."""
        served = await self._app.items.serve(activity_id, user_id=user_id)
        item, stored = _check_stream_item(served.item), served.document
        return Streams(item, None if stored is None else StreamDocument.of(stored))

    async def stats(self, *, user_id: str | None = None) -> StreamStats:
        """Count the streams of all users, and also those of one user."""
        counted = await self._app.items.stats(COLLECTION, user_id=user_id)
        use = await self._app.budgets.find(NAME)
        athletes = None
        if user_id is not None and counted.of_user is not None:
            athletes = {user_id: counted.of_user}
        return StreamStats(
            states=counted.states,
            retries={str(tries): count for tries, count in counted.retries.items()},
            limited_24h=counted.limited_24h,
            stuck=counted.stuck,
            windows=() if use is None else tuple(use.windows),
            athletes=athletes,
        )

    # ---- doing ---------------------------------------------------------------------------------

    async def reset(self, activity_id: str) -> Item:
        """Fetch an activity's streams again, whatever their state, in the cold lane."""
        item = await self._item(activity_id, None)
        return await self._app.items.reset(item.id)

    async def sync_now(self, *, user_id: str, connection_id: str | None = None) -> SubmitResult:
        """Look for new activities now, in the hot lane; the first time, list everything.

        Raises ActiveJobExists while a job handles an event, which takes seconds, and NotConnected
        if the athlete has to sign in again.
        """
        connection = await self._app.connections.resolve(
            NAME, user_id=user_id, connection_id=connection_id, signed_in=True
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
        if not _lists_activities(submitted.job):
            raise ActiveJobExists(submitted.job.id)
        return submitted

    async def backfill(self, *, user_id: str, connection_id: str | None = None) -> SubmitResult:
        """Fetch all missing streams, in the cold lane; an active job is returned as it is.

        Raises NotConnected if the athlete has to sign in again.
        """
        connection = await self._app.connections.resolve(
            NAME, user_id=user_id, connection_id=connection_id, signed_in=True
        )
        listing = await self._listed_until(connection) is None
        return await self._fetch_the_rest(connection, listing=listing)

    async def handle_event(self, event: StravaEvent) -> WebhookResult:
        """Store an event: it is durable before this returns, and a repeated event changes nothing.

        No request is sent to Strava here. See `events.py` for what guarantees the rest.
        """
        return await WebhookHandler(self._app).handle(event, NAME)

    # ---- parts ---------------------------------------------------------------------------------

    async def _item(self, activity_id: str, user_id: str | None) -> Item:
        return _check_stream_item(await self._app.items.get(activity_id, user_id=user_id))

    async def _with_details(self, found: Sequence[Item]) -> Sequence[Activity]:
        details = await stored_details.details_of(self._app, found)
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
        """Return up to when activities have been listed, less the overlap; None: never."""
        done = await self._app.jobs.list(
            user_id=connection.user_id,
            sync=LIVE,
            connection_id=connection.id,
            states=(JobState.SUCCESS,),
            limit=JOBS_MAX,
        )
        last = next((job for job in done if _lists_activities(job)), None)
        return None if last is None else last.created_at - OVERLAP


def _check_stream_item(item: Item) -> Item:
    """Return the item if it is for an activity's streams; else raise NotFound."""
    if item.collection != COLLECTION:
        raise NotFound(f"there is no activity {item.id!r}")
    return item


def _lists_activities(job: Job) -> bool:
    """Whether the job lists activities, and not only reads those that events named."""
    return job.params.options.get("listing") is not False
