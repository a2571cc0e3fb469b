"""The health history with its budgets in a real Redis that loses everything in mid-import.

Google tells nobody how much of its limits is used, so nothing but our own count keeps us within.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from headgate import App, JobState, WorkerSettings
from headgate.base.clock import FastClock
from headgate.limits.redis import RedisLimiter
from headgate.model.states import JOB
from headgate.ports.transport import Request, Response
from headgate.types import Job
from tests import servers
from tests.connecting import vault
from tests.health import SPORTY, Site, days_back, start
from tests.limiters import flush
from tests.worlds import World

#: A minute a second: the wait for a short window takes a second.
SPEED = 60.0
#: Real seconds that anything may take.
GIVE_UP_S = 90.0
DAYS = 4
#: Ten real seconds: nobody dies here, and a busy machine must not look like it.
LEASE_S = 600.0


@pytest.fixture
def redis() -> Iterator[servers.ValkeyServer]:
    with servers.valkey() as started:
        yield started


class FastWorld:
    """An application whose clock runs fast, so that a real Redis can take part."""

    def __init__(self, file: Path, redis: servers.ValkeyServer) -> None:
        self.clock = FastClock(SPEED)
        self._file = file
        self._redis = redis

    async def app(self, *syncs: Any, **parts: Any) -> App:
        app = App(
            f"sqlite:///{self._file}",
            syncs=syncs,
            redis=self._redis.url,
            worker=WorkerSettings(lease_s=LEASE_S, grace_s=0.0),
            clock=self.clock,
            rng=Random(1),
            **parts,
        )
        # Redis has a clock of its own, which is not a fast one.
        assert isinstance(app._limiter, RedisLimiter)
        app._limiter._server_time = False
        await app.open()
        return app


@asynccontextmanager
async def working(file: Path, redis: servers.ValkeyServer) -> AsyncIterator[tuple[Site, App]]:
    site = Site(cast(World, FastWorld(file, redis)), google={"shares": SPORTY})
    app = await site.app(vault=vault())
    try:
        supervisor = app.supervisor()
        await supervisor.start()
        try:
            yield site, app
        finally:
            await supervisor.stop()
    finally:
        await app.close()


async def ended(app: App, job: Job) -> Job:
    async with asyncio.timeout(GIVE_UP_S):
        while (now := await app.jobs.get(job.id)).state not in JOB.terminal:
            await app.clock.sleep(3)
    return now


def at_requests(*numbers: int, act: Callable[[], None]) -> Callable[[Request, Response], None]:
    """Do something when the requests of these numbers, of those for data, were answered."""
    counted = count(1)

    def after(request: Request, _: Response) -> None:
        if "/dataTypes/" in request.url and next(counted) in numbers:
            act()

    return after


@pytest.mark.servers
@pytest.mark.fault(15)
async def test_a_redis_that_is_emptied_in_mid_chunk_costs_a_minute_and_no_request(
    tmp_path: Path, redis: servers.ValkeyServer
) -> None:
    async with working(tmp_path / "history.db", redis) as (site, app):
        # Given an import under way, when Redis loses all between two requests of a day
        await site.connect_both(app)
        site.wire.after = at_requests(10, act=lambda: flush(redis.url))

        # When it goes on
        job = await ended(app, await start(app, DAYS))

        # Then every day is imported, and nothing was read twice: no chunk began again
        assert job.state is JobState.SUCCESS
        assert site.external_ids() == site.expected_ids(days_back(DAYS))
        read = Counter(each.url for each in site.wire.sent if each.method == "GET")
        exercises = [url for url in read if urlsplit(url).path.endswith("/exercise/dataPoints")]
        assert len(exercises) == DAYS
        assert {read[url] for url in exercises} == {1}
        assert job.summary.deferrals == 0
        # And by the providers' own counts nothing was ever too much
        assert site.google.meter.overshoot() == site.strava.meter.overshoot() == 0
