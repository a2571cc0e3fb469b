"""Nights of ticks on both databases: two schedulers, clocks that are set, processes that die."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from headgate import App, Chunk, Context, JobState, Schedule, Sync
from headgate.base.clock import ManualClock
from headgate.loops.scheduler import Scheduler
from headgate.model import change
from headgate.model.job import Lane
from headgate.signals.local import LocalSignal
from headgate.store.sql.engine.database import Database
from headgate.store.sql.jobs import rows as new_jobs
from tests.conformance.databases import others, shared_fixture
from tests.stores import LEASE, START, MakeDatabase, tally

USERS = ("ada", "bob", "cleo", "dan", "eve")
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


class Quiet:
    """A source that nobody reads."""

    name = "quiet"

    async def read(self, ctx: Context) -> Chunk:
        raise AssertionError("no worker runs")


class Weeks:
    """An application with a schedule and its schedulers, on one database and one clock."""

    def __init__(self, database: Database, clock: ManualClock) -> None:
        self._database = database
        self._signal = LocalSignal()
        self.clock = clock
        self.app = self.another()

    def another(self, cron: str = "30 2 * * *", tz: str = "Europe/Berlin", **fields: Any) -> App:
        """The application of another process, or of another version."""
        given = {"name": "nightly", "sync": "notes", "cron": cron, "tz": tz, **fields}
        return App(
            self._database,
            syncs=[Sync(name="notes", source=Quiet())],
            schedules=[Schedule(**{"active_within": None, **given})],
            signal=self._signal,
            clock=self.clock,
            rng=Random(1),
        )

    def scheduler(self, app: App | None = None) -> Scheduler:
        return Scheduler((app or self.app)._runtime, worker="w")

    async def finish_jobs(self) -> None:
        """Do what workers do: claim what is due, and let it succeed."""
        store = self.app._runtime.jobs
        while claimed := (await store.claim(Lane.HOT, worker="w", limit=50, lease=LEASE)).jobs:
            await store.settle_many([(change.succeed(job, tally(), {}), None) for job in claimed])

    async def jobs_by_user(self) -> Counter[str]:
        jobs = await self.app.jobs.list(limit=1000)
        return Counter(job.user_id for job in jobs)

    async def ticks(self) -> list[datetime]:
        return [
            tick.tick for tick in reversed(await self.app.schedules.ticks("nightly", limit=999))
        ]


@shared_fixture()
async def weeks(database: Database, clock: ManualClock) -> AsyncIterator[Weeks]:
    weeks = Weeks(database, clock)
    for name in USERS:
        await weeks.app.users.seen(name)
    yield weeks


def set_to(clock: ManualClock, at: datetime) -> None:
    clock.advance((at - clock.now()).total_seconds())


@pytest.mark.parametrize(
    "fires",
    [
        # The clock skips half past two on the 29th, and shows it twice on the 25th.
        datetime(2026, 3, 29, 1, tzinfo=UTC),
        datetime(2026, 10, 25, 0, 30, tzinfo=UTC),
    ],
)
@pytest.mark.fault(20)
async def test_in_the_nights_around_a_clock_that_is_set_each_user_has_one_job_a_night(
    weeks: Weeks, clock: ManualClock, fires: datetime
) -> None:
    begin = fires.replace(hour=12, minute=0) - 2 * DAY
    set_to(clock, begin)
    schedulers = [weeks.scheduler(), weeks.scheduler(weeks.another())]

    while clock.now() < begin + 4 * DAY:
        await asyncio.gather(*(each.run_once() for each in schedulers))
        await weeks.finish_jobs()
        clock.advance(1800)

    ticks = await weeks.ticks()
    assert len(ticks) == 4
    assert fires in ticks
    assert await weeks.jobs_by_user() == dict.fromkeys(USERS, 4)
    assert {job.state for job in await weeks.app.jobs.list(limit=1000)} == {JobState.SUCCESS}


async def test_with_every_tick_two_processes_and_a_crash_nobody_has_two_jobs_or_none(
    weeks: Weeks, clock: ManualClock, make_database: MakeDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with others(make_database) as [other]:
        await many_nights(weeks, Weeks(other, clock), monkeypatch)


async def many_nights(one: Weeks, two: Weeks, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Random(7)
    insert = new_jobs.insert
    dying = False

    def crash(tx: Any, rows: Any, data: Any) -> set[str]:
        # After user 3 of 5, in one night out of three, whichever process it is.
        if dying:
            insert(tx, rows[:3], data)
            raise KeyError("killed")
        return insert(tx, rows, data)

    monkeypatch.setattr(new_jobs, "insert", crash)
    clock, tick = one.clock, START
    schedulers = [one.scheduler(), two.scheduler()]
    for night in range(9):
        await asyncio.gather(*(each.run_once() for each in schedulers))
        [view] = await one.app.schedules.list()
        assert view.next_tick_at is not None
        tick = view.next_tick_at
        set_to(clock, tick)
        dying = night % 3 == 0
        ended = await asyncio.gather(
            *(each.run_once() for each in schedulers), return_exceptions=True
        )
        if dying:
            assert {type(each) for each in ended} == {KeyError}
        dying = False
        # A clock that is set back, or forward, fires nothing twice.
        clock.advance(draw.choice((-120, 0, 3600)))
        schedulers = [one.scheduler(), two.scheduler()]
        await asyncio.gather(*(each.run_once() for each in schedulers))
        clock.advance(7200)
        await asyncio.gather(*(each.run_once() for each in schedulers))
        clock.advance(1200)
        await one.finish_jobs()

    ticks = await one.ticks()
    assert len(ticks) == len(set(ticks)) == 9
    assert await one.jobs_by_user() == dict.fromkeys(USERS, 9)


@pytest.mark.fault(22)
async def test_26_hours_without_a_scheduler_are_one_tick_and_no_herd(
    weeks: Weeks, clock: ManualClock
) -> None:
    await weeks.scheduler().run_once()
    [view] = await weeks.app.schedules.list()
    assert view.next_tick_at is not None
    set_to(clock, view.next_tick_at + 26 * HOUR)

    await weeks.scheduler().run_once()

    assert await weeks.ticks() == [view.next_tick_at + DAY]
    starts = sorted(job.wake_at for job in await weeks.app.jobs.list() if job.wake_at is not None)
    assert [at - clock.now() for at in starts] == [
        timedelta(minutes=2 * place) for place in range(5)
    ]
