"""Activity streams with the budget in a real Redis that is stopped and started in mid-run.

What the design says of it: activities and laps go on, on a small share; streams stay pending; the
backfill stops. When Redis is back, empty, everything is fetched, and Strava has refused nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest

from headgate import App, Connection, Job, JobState, NotFound, Reason, Secret, WorkerSettings
from headgate.base.clock import FastClock
from headgate.connectors.asgi_transport import AsgiTransport
from headgate.limits.redis import RedisLimiter
from headgate.model.states import ItemState
from headgate.sandbox.strava.activity import Activity as Sport
from headgate.sandbox.strava.activity import Shares
from headgate.sandbox.strava.sandbox import Strava
from headgate.sandbox.strava.world import NewActivity
from headgate.systems.activity_streams import (
    ActivityStreams,
    StravaEvent,
    activity_id,
    activity_streams,
)
from tests import servers
from tests.connecting import Wire, vault
from tests.health import STRAVA, strava_api

#: A minute a second: a paced request waits for a fifth of a second, a look for Redis for a half.
SPEED = 60.0
#: Real seconds that anything may take.
GIVE_UP_S = 60.0
ACTIVITIES = 25
#: Ten real seconds: nobody dies here, and a busy machine must not look like it.
LEASE_S = 600.0


@pytest.fixture
def redis() -> Iterator[servers.ValkeyServer]:
    with servers.valkey() as started:
        yield started


class Place:
    """A worker with its budget in Redis, and a Strava that counts for itself."""

    def __init__(self, app: App, strava: Strava, wire: Wire, connection: Connection) -> None:
        self.app = app
        self.strava = strava
        self.wire = wire
        self.connection = connection
        self.streams = ActivityStreams(app)

    async def until(self, true: Callable[[], Awaitable[bool]]) -> None:
        """Let time pass until it is."""
        async with asyncio.timeout(GIVE_UP_S):
            while not await true():
                await self.app.clock.sleep(3)

    async def is_waiting_for_redis(self, job: Job) -> bool:
        now = await self.app.get(job.id)
        assert now.state in (JobState.PENDING, JobState.RUNNING), now
        return now.reason is Reason.NO_LIMITER

    async def has_ended(self, job: Job) -> bool:
        now = await self.app.get(job.id)
        assert now.state is not JobState.FAILED, now
        return now.state is JobState.SUCCESS

    def asked(self, ending: str) -> int:
        return sum(urlsplit(each.url).path.endswith(ending) for each in self.wire.sent)

    async def state(self, sport: Sport) -> ItemState | None:
        try:
            found = await self.streams.find(activity_id(self.connection.id, sport.id))
        except NotFound:
            return None
        return found.item.state

    async def happens(self) -> Sport:
        """A new activity, and Strava tells of it."""
        sport = self.strava.world.add(NewActivity())
        event = StravaEvent(
            object_type="activity",
            object_id=sport.id,
            aspect_type="create",
            owner_id=sport.athlete_id,
            event_time=int(self.app.clock.now().timestamp()),
        )
        assert (await self.streams.heard(event)).connections == 1
        return sport


@asynccontextmanager
async def working(file: Path, redis: servers.ValkeyServer) -> AsyncIterator[Place]:
    clock = FastClock(SPEED)
    strava = Strava(
        clock, activities=ACTIVITIES, stream_points=10, shares=Shares(manual=0.0, private=0.0)
    )
    wire = Wire(AsgiTransport({STRAVA: strava}, clock))
    app = App(
        f"sqlite:///{file}",
        syncs=activity_streams(strava_api()),
        redis=redis.url,
        worker=WorkerSettings(lease_s=LEASE_S, grace_s=0.0),
        vault=vault(),
        transport=wire,
        clock=clock,
        rng=Random(1),
    )
    # Redis has a clock of its own, which is not a fast one.
    assert isinstance(app.limiter, RedisLimiter)
    app.limiter._server_time = False
    async with app:
        grant = strava.grant()
        connection = await app.connections.hand_over(
            "strava", Secret(grant.access_token), user_id="ada", external_id=grant.user
        )
        supervisor = app.supervisor()
        await supervisor.start()
        try:
            yield Place(app, strava, wire, connection)
        finally:
            await supervisor.stop()


async def test_without_redis_live_metadata_goes_on_and_streams_wait_for_it(
    tmp_path: Path, redis: servers.ValkeyServer
) -> None:
    async with working(tmp_path / "streams.db", redis) as place:
        # Given a backfill under way
        backfill = (await place.streams.backfill(user_id="ada")).job

        async def has_begun() -> bool:
            return place.asked("/streams") >= 5

        await place.until(has_begun)

        # When Redis is stopped
        await asyncio.to_thread(redis.stop)
        await place.until(lambda: place.is_waiting_for_redis(backfill))
        fetched = place.asked("/streams")
        assert fetched < ACTIVITIES

        # Then an activity that comes in is read with its laps, and its streams stay pending
        sport = await place.happens()

        async def is_read() -> bool:
            return await place.state(sport) is not None

        await place.until(is_read)
        [live] = await place.app.jobs(sync="strava-live")
        await place.until(lambda: place.is_waiting_for_redis(live))
        found = await place.streams.find(activity_id(place.connection.id, sport.id))
        assert found.item.state is ItemState.PENDING
        assert found.details is not None and found.details["laps"]
        assert place.asked("/laps") == 1

        # And for minutes no streams are asked for, by live work or backfill; nothing is burnt
        await place.app.clock.sleep(180)
        assert place.asked("/streams") == fetched
        states = (await place.streams.stats()).states
        assert (states["fetching"], states["failed"], states["deferred"]) == (0, 0, 0)
        assert (await place.streams.stats()).windows == ()
        assert await place.app.items.next_expiry_s() is None

        # And when Redis is back, empty, everything is fetched
        await asyncio.to_thread(redis.start)

        async def is_done() -> bool:
            states = (await place.streams.stats()).states
            return states["success"] == sum(states.values()) == ACTIVITIES + 1

        await place.until(is_done)
        await place.until(lambda: place.has_ended(backfill))
        await place.until(lambda: place.has_ended(live))
        assert place.asked("/streams") == ACTIVITIES + 1
        # And by Strava's own count nothing was ever too much
        assert place.strava.meter.overshoot() == 0
        assert place.strava.requests.count(status=429) == 0
