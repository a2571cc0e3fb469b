"""Handles the events of Strava's webhooks.

An event is durable before it is acknowledged: an activity that was created or changed becomes an
item that is due, which is a row. Then a live job is ensured. No request is sent to Strava
meanwhile.

**What guarantees that the activity is read, and when.** A new job starts at once. A job that is
active already looks again: an idle one at once, a running one before it ends, and one that waits
for Strava's budget when the budget opens. If the worker dies, the job and the item are claimed
again when their leases expire.

Strava does not sign its events. Whoever knows the callback's address can cause an activity to be
read again or deleted, or a connection to be closed, so the address must be secret.
"""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import msgspec

from headgate import App, ConnectionState, Item, ItemState, Lane, NewItem, NotFound
from headgate.systems.activity_streams import stored_details
from headgate.systems.activity_streams.names import ACTIVITIES, LIVE, activity_id, details_id
from headgate.types import Connection

#: An earlier time of an event is not believed: Strava had no webhooks then.
EVENT_TIME_MIN = 1_000_000_000
_SECOND = timedelta(seconds=1)
WITHDRAWN = "the athlete has withdrawn the authorization at Strava"


class StravaEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event, exactly as Strava sends it."""

    object_type: str
    object_id: int
    aspect_type: str
    owner_id: int
    subscription_id: int = 0
    event_time: int = 0
    updates: dict[str, object] = {}

    @property
    def withdraws(self) -> bool:
        """Whether the athlete has withdrawn the authorization. Strava sends "false" as a text."""
        return self.object_type == "athlete" and (
            str(self.updates.get("authorized", "")).lower() == "false"
        )

    def at(self, now: datetime) -> datetime:
        """Return the time of the event, in whole seconds; now, if it is missing or impossible."""
        if not EVENT_TIME_MIN <= self.event_time <= now.timestamp():
            return now
        return datetime.fromtimestamp(self.event_time, UTC)


class WebhookResult(msgspec.Struct, frozen=True):
    """The result of handling an event."""

    #: The number of connections that the event concerned.
    connections: int


class WebhookHandler:
    """Handles events."""

    def __init__(self, app: App) -> None:
        """Store them in `app`."""
        self._app = app

    async def handle(self, event: StravaEvent, source: str) -> WebhookResult:
        """Apply the event to each connection to that account; a repeated event changes nothing."""
        found = await self._app.connections.of_account(source, str(event.owner_id))
        for connection in found:
            # A connection that was removed meanwhile must not keep the others from the event.
            with suppress(NotFound):
                await self._apply(connection, event)
        return WebhookResult(len(found))

    async def _apply(self, connection: Connection, event: StravaEvent) -> None:
        if event.withdraws:
            await self._withdraw(connection, event)
        elif event.object_type == "activity":
            match event.aspect_type:
                case "create" | "update":
                    await self._schedule_read(connection, event)
                case "delete":
                    await stored_details.forget(self._app, connection.id, str(event.object_id))

    async def _schedule_read(self, connection: Connection, event: StravaEvent) -> None:
        item = await self._register(connection, event)
        if event.aspect_type == "update" and not _is_read_since(item, event):
            item = await self._app.items.reset(item.id, after=self._past(event), fetch=False)
        waits = item.next_attempt_at is not None
        if waits and connection.state is not ConnectionState.NEEDS_REAUTH:
            await self._app.jobs.ensure(
                LIVE,
                user_id=connection.user_id,
                connection_id=connection.id,
                lane=Lane.HOT,
                options={"listing": False},
            )

    def _past(self, event: StravaEvent) -> timedelta:
        """Return how long until the second of the event is over.

        A read after that second is certainly later than the event.
        """
        left = timedelta(seconds=event.event_time + 1 - self._app.clock.now().timestamp())
        return left if timedelta(0) < left <= _SECOND else timedelta(0)

    async def _register(self, connection: Connection, event: StravaEvent) -> Item:
        new = NewItem(
            id=details_id(activity_id(connection.id, event.object_id)),
            collection=ACTIVITIES,
            user_id=connection.user_id,
            connection_id=connection.id,
            external_id=str(event.object_id),
            start_time=event.at(self._app.clock.now()),
            lane=Lane.HOT,
        )
        await self._app.items.register([new])
        return await self._app.items.get(new.id)

    async def _withdraw(self, connection: Connection, event: StravaEvent) -> None:
        """Close the connection, so that its jobs end at their next chunk, without a request.

        An event that is older than the credentials does not concern them.
        """
        if connection.updated_at >= event.at(self._app.clock.now()) + _SECOND:
            return
        await self._app.connections.mark_withdrawn(connection, WITHDRAWN)


def _is_read_since(item: Item, event: StravaEvent) -> bool:
    """Whether the activity was or will be read after the event, so that nothing is to do."""
    if item.state is ItemState.PENDING:
        return True
    # Event times are whole seconds: a read that began in the same second may have been earlier.
    return (
        item.attempted_at is not None
        and event.event_time >= EVENT_TIME_MIN
        and item.attempted_at.timestamp() >= event.event_time + 1
    )
