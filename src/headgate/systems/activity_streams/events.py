"""What Strava's webhooks tell, and what is noted of it.

An event is durable before it is acknowledged: an activity that was created or changed becomes due
to be read, and that is a row. Then a live job is asked for. Nothing is asked of Strava meanwhile.

**What guarantees that it is read, and when.** A new job begins at once. Where a job is active
already, it is made to look again: an idle one at once, one that a worker has before it ends, and
one that waits for Strava's budget when that opens. Where the worker dies, the job and the row come
back with their leases.

Strava does not sign its events. Whoever knows the callback's address can have an activity read
again, forgotten, or a connection closed, so the address has to be a secret.
"""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import msgspec

from headgate import App, Connection, ConnectionState, Item, ItemState, Lane, NewItem, NotFound
from headgate.systems.activity_streams import kept
from headgate.systems.activity_streams.names import ACTIVITIES, LIVE, activity_id, details_id

#: Where the time of an event is not believed: before Strava had webhooks.
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
        """Whether the athlete no longer lets us in. Strava writes the word, not the value."""
        return self.object_type == "athlete" and (
            str(self.updates.get("authorized", "")).lower() == "false"
        )

    def at(self, now: datetime) -> datetime:
        """When it happened, in whole seconds; now, where it does not say or cannot be."""
        if not EVENT_TIME_MIN <= self.event_time <= now.timestamp():
            return now
        return datetime.fromtimestamp(self.event_time, UTC)


class WebhookResult(msgspec.Struct, frozen=True):
    """What an event was about."""

    #: Connections that it concerned.
    connections: int


class WebhookHandler:
    """Takes events in."""

    def __init__(self, app: App) -> None:
        """Note them in `app`."""
        self._app = app

    async def hear(self, event: StravaEvent, source: str) -> WebhookResult:
        """Note what it says for each connection to that account; the same again changes nothing."""
        found = await self._app.connections.of_account(source, str(event.owner_id))
        for connection in found:
            # One that was removed since has nothing to note, and keeps no other from it.
            with suppress(NotFound):
                await self._concerns(connection, event)
        return WebhookResult(len(found))

    async def _concerns(self, connection: Connection, event: StravaEvent) -> None:
        if event.withdraws:
            await self._withdrawn(connection, event)
        elif event.object_type == "activity":
            match event.aspect_type:
                case "create" | "update":
                    await self._changed(connection, event)
                case "delete":
                    await kept.forget(self._app, connection.id, str(event.object_id))

    async def _changed(self, connection: Connection, event: StravaEvent) -> None:
        item = await self._noted(connection, event)
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
        """How long until the second of the event is over.

        What is read after it is told from what was read before the event.
        """
        left = timedelta(seconds=event.event_time + 1 - self._app.clock.now().timestamp())
        return left if timedelta(0) < left <= _SECOND else timedelta(0)

    async def _noted(self, connection: Connection, event: StravaEvent) -> Item:
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

    async def _withdrawn(self, connection: Connection, event: StravaEvent) -> None:
        """Its jobs end at their next chunk, without a request.

        An event that is older than the credentials says nothing about them.
        """
        if connection.updated_at >= event.at(self._app.clock.now()) + _SECOND:
            return
        await self._app.connections.mark_withdrawn(connection, WITHDRAWN)


def _is_read_since(item: Item, event: StravaEvent) -> bool:
    """Whether the activity was, or will be, read after the event: then it says nothing new."""
    if item.state is ItemState.PENDING:
        return True
    # An event's time is in whole seconds: what began in the same one may have been before it.
    return (
        item.attempted_at is not None
        and event.event_time >= EVENT_TIME_MIN
        and item.attempted_at.timestamp() >= event.event_time + 1
    )
