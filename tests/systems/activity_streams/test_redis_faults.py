"""Activity streams with the budget in a real Redis that is stopped and started in mid-run.

What the design says of it: activities and laps go on, on a small share; streams stay pending; the
backfill stops. When Redis is back, empty, everything is fetched, and Strava has refused nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar
from urllib.parse import urlsplit

import pytest

from headgate import App, Connection, Job, JobState, NotFound, Reason, Secret, WorkerSettings
from headgate.base.clock import FastClock
from headgate.connectors.asgi_transport import AsgiTransport
from headgate.limits.redis import RedisLimiter
from headgate.model.connection import Tokens
from headgate.model.states import ItemState
from headgate.ports.transport import Request, Response
from headgate.sandbox.strava.activity import Activity as Sport
from headgate.sandbox.strava.activity import Shares
from headgate.sandbox.strava.sandbox import Strava
from headgate.sandbox.strava.world import NewActivity
from headgate.systems.activity_streams.events import StravaEvent
from headgate.systems.activity_streams.names import activity_id
from headgate.systems.activity_streams.service import ActivityStreams, StreamStats
from headgate.systems.activity_streams.syncs import activity_streams
from tests import servers
from tests.connecting import Wire, vault
from tests.health import STRAVA, strava_api

T = TypeVar("T")

#: Two minutes a second: a look for Redis comes a quarter of a second after the one before.
SPEED = 120.0
#: Real seconds that anything may take.
GIVE_UP_S = 60.0
#: Redis is stopped with the answer to one of the first batch on its way; others are in hand then.
ACTIVITIES, FETCHED = 12, 5
#: Two minutes without Redis: so often each job looks for it, once it waits.
LOOKS = 4
#: Ten real seconds: nobody dies here, and a busy machine must not look like it.
LEASE_S = 1200.0


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
        now = await self.app.jobs.get(job.id)
        assert now.state in (JobState.PENDING, JobState.RUNNING), now
        return now.reason is Reason.NO_LIMITER

    async def has_looked(self, job: Job, times: int) -> bool:
        """Whether it has looked for Redis so often since, in vain."""
        return (await self.app.jobs.get(job.id)).summary.deferrals >= job.summary.deferrals + times

    async def at_rest(self, jobs: Sequence[Job], look: Callable[[], Awaitable[T]]) -> T:
        """What is seen while all of these wait for Redis.

        Each looks for it twice a minute, and claims what it would fetch: while it does, it rightly
        has items in hand. A claim changes the job, so one that is the same before and after the
        look was at rest all the time.
        """
        async with asyncio.timeout(GIVE_UP_S):
            while True:
                before = [await self.app.jobs.get(job.id) for job in jobs]
                seen = await look()
                after = [await self.app.jobs.get(job.id) for job in jobs]
                if before == after and {job.reason for job in after} == {Reason.NO_LIMITER}:
                    return seen
                await self.app.clock.sleep(3)

    async def has_ended(self, job: Job) -> bool:
        now = await self.app.jobs.get(job.id)
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
        assert (await self.streams.handle_event(event)).connections == 1
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
    assert isinstance(app._limiter, RedisLimiter)
    app._limiter._server_time = False
    async with app:
        grant = strava.grant()
        tokens = Tokens(access=Secret(grant.access_token), external_id=grant.user)
        connection = await app.connections._save("strava", "ada", tokens, None, in_person=True)
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
        # Given a backfill under way, when Redis is stopped
        def stop_under_way(request: Request, response: Response) -> None:
            if "/streams" in request.url and place.asked("/streams") == FETCHED:
                redis.stop()

        place.wire.after = stop_under_way
        backfill = (await place.streams.backfill(user_id="ada")).job
        await place.until(lambda: place.is_waiting_for_redis(backfill))

        # Then an activity that comes in is read with its laps, and its streams stay pending
        sport = await place.happens()

        async def is_read() -> bool:
            return await place.state(sport) is not None

        await place.until(is_read)
        [live] = await place.app.jobs.list(sync="strava-live")
        await place.until(lambda: place.is_waiting_for_redis(live))
        found = await place.at_rest(
            [backfill, live],
            lambda: place.streams.find(activity_id(place.connection.id, sport.id)),
        )
        assert found.item.state is ItemState.PENDING
        assert found.details is not None and found.details["laps"]
        assert place.asked("/laps") == 1

        # And for minutes no streams are asked for, by live work or backfill; nothing is burnt
        for job in [await place.app.jobs.get(backfill.id), await place.app.jobs.get(live.id)]:
            await place.until(partial(place.has_looked, job, LOOKS))
        assert place.asked("/streams") == FETCHED

        # And nothing is held from one look to the next
        async def numbers() -> tuple[StreamStats, float | None]:
            return await place.streams.stats(), await place.app._items.next_sweep_s()

        stats, next_expiry_s = await place.at_rest([backfill, live], numbers)
        states = {name: count for name, count in stats.states.items() if count}
        assert states == {"success": FETCHED, "pending": ACTIVITIES + 1 - FETCHED}
        assert stats.windows == ()
        assert next_expiry_s is None

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
