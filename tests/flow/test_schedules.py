"""Schedules in virtual time: every active user, once a tick, one after another."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headgate import (
    ApiDestination,
    App,
    Budget,
    Chunk,
    Conflict,
    Context,
    InvalidInput,
    JobState,
    Limit,
    Mode,
    NotFound,
    Schedule,
    SkipReason,
    Sync,
    Terminal,
    TickKind,
)
from headgate.base import log
from headgate.base.clock import SystemClock
from headgate.flow.schedules import plan as schedule_plan
from headgate.flow.schedules.fire import BATCH
from headgate.flow.schedules.plan import store_of
from headgate.loops.scheduler import SLEEP_S_MAX, Scheduler
from headgate.store.sql.schedules.store import SqlSchedules
from headgate.types import Job, Tick
from tests.connecting import STRAVA, Site, strava_auth, vault
from tests.flow.sources import nothing
from tests.flow.test_lanes import count_statements
from tests.worlds import START, ScriptedSource, World, as_test, in_world, lanes, with_world

DAY, HOUR, MINUTE = 86_400.0, 3600.0, 60.0
USERS = ("ada", "bob", "cleo", "dan", "eve")
#: Time begins at midnight.
TWO = START + timedelta(hours=2)
#: Weeks pass with few heartbeats.
PATIENT = lanes(lease_s=2 * DAY)

Main = Callable[["Nights"], Awaitable[None]]


def nightly(**fields: Any) -> Schedule:
    return Schedule(**{"name": "nightly", "sync": "notes", "cron": "0 2 * * *", **fields})


def outgoing() -> ApiDestination:
    """A destination at which users have to be connected."""
    return ApiDestination("strava", base_url=f"{STRAVA}/api/v3", auth=strava_auth())


class Nights:
    """An application with a schedule, its users, and any number of schedulers."""

    def __init__(self, world: World, schedule: Schedule, source: ScriptedSource) -> None:
        self.world = world
        self.schedule = schedule
        self.source = source
        self.app: App

    async def open(self, **parts: Any) -> App:
        sync = Sync(name="notes", source=self.source)
        return await self.world.app(sync, schedules=[self.schedule], worker=PATIENT, **parts)

    async def users(self, *names: str) -> None:
        for name in names:
            await self.app.users.seen(name)

    def scheduler(self, app: App | None = None, worker: str = "worker") -> Scheduler:
        return Scheduler((app or self.app)._runtime, worker=worker)

    async def until(self, at: datetime) -> None:
        await self.world.clock.sleep((at - self.world.clock.now()).total_seconds())

    async def fire(self, scheduler: Scheduler | None = None) -> float:
        """Let a scheduler work until it rests; returns for how long."""
        scheduler = scheduler or self.scheduler()
        while (rest_s := await scheduler.run_once()) == 0:
            pass
        return rest_s

    async def jobs(self, **fields: Any) -> list[Job]:
        """All jobs, the oldest first."""
        return list(reversed(await self.app.jobs.list(limit=1000, **fields)))

    async def ticks(self) -> list[Tick]:
        return list(reversed(await self.app.schedules.ticks(self.schedule.name)))

    async def skipped(self, tick: datetime) -> dict[str, SkipReason | None]:
        found = await self.app.schedules.tick_users(self.schedule.name, tick, limit=1000)
        return {each.user_id: each.reason for each in found if each.reason is not None}


def play(
    folder: Path,
    main: Main,
    schedule: Schedule | None = None,
    *,
    read: Callable[[Context], Awaitable[Chunk]] = nothing,
    **parts: Any,
) -> None:
    async def in_time(world: World) -> None:
        nights = Nights(world, schedule or nightly(), ScriptedSource(read))
        nights.app = await nights.open(**parts)
        await main(nights)

    in_world(folder, in_time)


with_nights = as_test(play)


def logged() -> StringIO:
    lines = StringIO()
    log.configure(SystemClock(), json=True, stream=lines)
    return lines


def events(lines: StringIO) -> list[dict[str, Any]]:
    """The lines of the log without their time and module."""
    found = [json.loads(line) for line in lines.getvalue().splitlines()]
    return [
        {key: value for key, value in each.items() if key not in ("at", "module", "level")}
        for each in found
    ]


# ---- ticks -------------------------------------------------------------------------------------


@with_nights
async def test_at_two_every_active_user_gets_a_job_two_minutes_apart(nights: Nights) -> None:
    await nights.users(*USERS)
    scheduler = nights.scheduler()
    assert await nights.fire(scheduler) == SLEEP_S_MAX
    assert await nights.jobs() == []
    await nights.until(TWO)
    lines = logged()

    assert await nights.fire(scheduler) == SLEEP_S_MAX

    jobs = await nights.jobs()
    assert [job.user_id for job in jobs] == list(USERS)
    starts = [job.wake_at - TWO for job in jobs if job.wake_at is not None]
    assert starts == [timedelta(minutes=2 * place) for place in range(5)]
    assert {job.mode for job in jobs} == {Mode.SINCE}
    started, completed = events(lines)
    tick = {"schedule": "nightly", "tick": TWO.isoformat(), "kind": "cron", "active_users": 5}
    assert started == {"event": "tick_started", **tick, "users": 5}
    assert completed == {
        "event": "tick_completed",
        **tick,
        "users_queued": 5,
        "skipped": {},
        "last_start": (TWO + timedelta(minutes=8)).isoformat(),
    }


TOLD: list[Any] = []


@as_test(play, nightly(on_start=lambda *told: TOLD.append(told), on_end=TOLD.append))
async def test_a_schedule_hears_of_its_own_ticks(nights: Nights) -> None:
    TOLD.clear()
    await nights.users(*USERS)

    await nights.app.schedules.run_now("nightly", by="eve")

    [tick] = await nights.ticks()
    assert TOLD == [(tick.tick, 5), tick]


def test_a_worker_fires_by_itself_and_runs_the_jobs_in_turn(tmp_path: Path) -> None:
    began: list[tuple[str, datetime]] = []

    async def main(nights: Nights) -> None:
        await nights.users(*USERS)
        worker = nights.app.supervisor()
        await worker.start()
        await nights.until(TWO + timedelta(minutes=20))
        await worker.stop()

        assert [job.state for job in await nights.jobs()] == [JobState.SUCCESS] * 5
        assert [user for user, _ in began] == list(USERS)
        for place, (_, at) in enumerate(began):
            assert timedelta(0) <= at - TWO - timedelta(minutes=2 * place) < timedelta(seconds=5)

    async def read(ctx: Context) -> Chunk:
        began.append((ctx.user_id, ctx.clock.now()))
        return Chunk(records=[])

    play(tmp_path, main, read=read)


@pytest.mark.fault(23)
@with_nights
async def test_over_a_week_each_user_has_one_job_a_night_with_two_workers_and_restarts(
    nights: Nights,
) -> None:
    other = await nights.open()
    for night in range(7):
        # All of them are here every day.
        await nights.users(*USERS)
        workers = [nights.app.supervisor(), other.supervisor()]
        for each in workers:
            await each.start()
        await nights.until(START + timedelta(days=night, hours=3))
        for each in workers:
            await each.stop()
        await nights.until(START + timedelta(days=night + 1))

    jobs = await nights.jobs()
    assert len(jobs) == 7 * 5
    assert {job.state for job in jobs} == {JobState.SUCCESS}
    ticks = await nights.ticks()
    assert [tick.tick for tick in ticks] == [TWO + timedelta(days=n) for n in range(7)]
    assert {(tick.queued, tick.skipped, tick.missed) for tick in ticks} == {(5, 0, 0)}


@with_nights
async def test_of_two_schedulers_one_fires_and_the_other_says_so(nights: Nights) -> None:
    await nights.users(*USERS)
    one, other = nights.scheduler(worker="one"), nights.scheduler(worker="other")
    for each in (one, other):
        await nights.fire(each)
    await nights.until(TWO)
    lines = logged()

    await asyncio.gather(one.run_once(), other.run_once())

    assert len(await nights.jobs()) == 5
    names = [each["event"] for each in events(lines)]
    assert sorted(names) == sorted(["tick_started"] * 2 + ["tick_completed", "tick_taken"])


@with_nights
async def test_a_late_tick_says_how_many_were_missed(nights: Nights) -> None:
    await nights.fire()
    await nights.until(TWO + timedelta(hours=26))
    lines = logged()

    await nights.fire()

    [tick] = await nights.ticks()
    assert (tick.tick, tick.missed) == (TWO + timedelta(days=1), 1)
    assert events(lines)[-1]["fired"] == tick.tick.isoformat()


@pytest.mark.fault(22)
@as_test(play, nightly(catch_up="none"))
async def test_missed_ticks_are_dropped_where_that_is_wanted(nights: Nights) -> None:
    await nights.users(*USERS)
    await nights.fire()
    await nights.until(TWO + timedelta(hours=3))
    lines = logged()

    await nights.fire()

    assert await nights.ticks() == []
    assert events(lines) == [
        {
            "event": "ticks_missed",
            "schedule": "nightly",
            "count": 1,
            "catch_up": "none",
            "fired": None,
        }
    ]
    view = await nights.app.schedules.get("nightly")
    assert view.next_tick_at == TWO + timedelta(days=1)
    # Nobody misses a tick that another scheduler has dropped already.
    state = (await store_of(nights.app._runtime).states(["nightly"]))[1][0]
    assert state.last_tick is None


@as_test(play, nightly(catch_up="all"))
async def test_all_missed_ticks_fire_where_that_is_wanted(nights: Nights) -> None:
    await nights.users("ada")
    await nights.fire()
    await nights.until(TWO + timedelta(days=2, hours=1))

    await nights.fire()

    ticks = await nights.ticks()
    assert [tick.tick for tick in ticks] == [TWO + timedelta(days=n) for n in range(3)]
    # One job at a time for a connection: the later ticks find the first one's active.
    assert [(tick.queued, tick.skipped) for tick in ticks] == [(1, 0), (0, 1), (0, 1)]
    assert await nights.skipped(ticks[1].tick) == {"ada": SkipReason.JOB_ACTIVE}


# ---- who gets a job ----------------------------------------------------------------------------


@with_nights
async def test_skipped_users_are_listed_with_the_reason(nights: Nights) -> None:
    app = nights.app
    await nights.users("gone")
    await nights.fire()
    await nights.until(START + timedelta(days=31))
    await nights.users("ada", "paused", "busy")
    await app.users.pause("paused", by="support", reason="asked for it")
    manual = await app.jobs.submit("notes", user_id="busy")
    await app.users.set_plan("never-seen", "free")
    tick = TWO + timedelta(days=31)
    await nights.until(tick)
    lines = logged()

    await nights.fire()

    assert await nights.skipped(tick) == {
        "gone": SkipReason.INACTIVE,
        "never-seen": SkipReason.INACTIVE,
        "paused": SkipReason.USER_PAUSED,
        "busy": SkipReason.JOB_ACTIVE,
    }
    [own] = [job for job in await nights.jobs() if job.key is not None]
    assert own.user_id == "ada"
    [busy] = await app.schedules.tick_users(
        "nightly", tick, reasons=[SkipReason.JOB_ACTIVE], limit=10
    )
    assert busy.job_id == manual.job.id
    assert busy.message == "a job of the sync is active for the connection: it goes on"
    # The manual import goes on as if nothing had happened.
    assert await app.jobs.get(manual.job.id) == manual.job
    [completed] = [e for e in events(lines) if e["event"] == "tick_completed"]
    assert completed["skipped"] == {"inactive": 2, "user_paused": 1, "job_active": 1}


@with_nights
async def test_a_job_that_is_started_between_plan_and_firing_is_left_alone_too(
    nights: Nights,
) -> None:
    app = nights.app
    await nights.users("ada", "bob")
    await nights.fire()
    await nights.until(TWO)
    fire = SqlSchedules.fire
    lines = logged()

    async def late(self: SqlSchedules, new: Any) -> Any:
        await app.jobs.submit("notes", user_id="bob")
        return await fire(self, new)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqlSchedules, "fire", late)
        await nights.fire()

    assert await nights.skipped(TWO) == {"bob": SkipReason.JOB_ACTIVE}
    [tick] = await nights.ticks()
    assert (tick.queued, tick.skipped) == (1, 1)
    assert events(lines)[-1]["skipped"] == {"job_active": 1}


@with_nights
async def test_users_get_what_they_prefer(nights: Nights) -> None:
    await nights.users("ada", "bob", "cleo")
    await nights.app.users.set_preferences("bob", time="07:30", zone="Europe/Berlin")
    await nights.app.users.set_preferences("cleo", frequency="weekly")
    worker = nights.app.supervisor()
    await worker.start()
    await nights.until(START + timedelta(days=8))
    await worker.stop()

    jobs = await nights.jobs()
    of = {user: [job for job in jobs if job.user_id == user] for user in ("ada", "bob", "cleo")}
    assert [len(each) for each in of.values()] == [8, 8, 2]
    first = of["bob"][0].started_at
    assert first is not None
    assert timedelta(0) <= first - START - timedelta(hours=6, minutes=30) < timedelta(minutes=1)
    gap = of["cleo"][1].created_at - of["cleo"][0].created_at
    assert timedelta(days=6, hours=23) < gap < timedelta(days=7, hours=1)


def test_a_plan_may_not_include_it(tmp_path: Path) -> None:
    async def main(nights: Nights) -> None:
        await nights.users("ada", "bob")
        await nights.app.users.set_plan("bob", "paid")
        await nights.fire()
        await nights.until(TWO)
        await nights.fire()

        assert [job.user_id for job in await nights.jobs()] == ["bob"]
        assert await nights.skipped(TWO) == {"ada": SkipReason.PLAN}

    def only_paid(plan: str | None, mode: Mode) -> str | None:
        return None if plan == "paid" else "not in your plan"

    play(tmp_path, main, entitlement=only_paid)


@with_world
async def test_connections_of_the_source_are_candidates_and_broken_ones_are_skipped(
    world: World,
) -> None:
    site = Site(world)
    app = await site.app("all", schedules=[nightly(sync="all")])
    for name in ("ada", "bob"):
        await site.connect(app, name)
    paused = await site.connect(app, "cleo")
    await app.connections.pause(paused.id)

    plan = await app.schedules.plan("nightly")

    assert [start.user_id for start in plan.starts] == ["ada", "bob"]
    assert all(start.connection_id.startswith("conn_") for start in plan.starts)
    assert plan.skipped == {"connection_paused": 1}
    assert plan.requests_allowed == 1000
    fired = await app.schedules.run_now("nightly", by="test")
    assert (fired.queued, fired.skipped) == (2, 1)


@with_world
async def test_a_destination_with_users_needs_their_connection_there(world: World) -> None:
    site = Site(world)
    sync = Sync(name="out", source=ScriptedSource(nothing), destination=outgoing())
    app = await world.app(sync, schedules=[nightly(sync="out")], transport=site.wire, vault=vault())
    connection = await site.connect(app, "ada")
    await app.users.seen("bob")

    await app.schedules.run_now("nightly", by="test")

    [job] = await app.jobs.list()
    assert (job.user_id, job.destination_connection_id) == ("ada", connection.id)
    [tick] = await app.schedules.ticks("nightly")
    [skip] = await app.schedules.tick_users(
        "nightly", tick.tick, reasons=[SkipReason.NOT_CONNECTED]
    )
    assert skip.user_id == "bob"


def test_where_a_source_has_no_connections_every_user_is_started(tmp_path: Path) -> None:
    async def main(world: World) -> None:
        sync = Sync(name="out", source=ScriptedSource(nothing))
        app = await world.app(sync, schedules=[nightly(sync="out")])
        for name in ("ada", "bob", "cleo"):
            await app.users.seen(name)

        await app.schedules.run_now("nightly", by="test")

        jobs = await app.jobs.list()
        assert {job.connection_id for job in jobs} == {"ada", "bob", "cleo"}

    with pytest.MonkeyPatch.context() as patch:
        # Users come in pages, however many there are.
        patch.setattr(schedule_plan, "PAGE", 2)
        in_world(tmp_path, main)


@as_test(play, nightly(spread="4h"))
async def test_hundreds_of_users_are_spread_over_the_window(nights: Nights) -> None:
    # As many as it takes for other tasks to get a turn between.
    names = [f"user-{number:04d}" for number in range(2 * BATCH)]
    await nights.users(*names)
    await nights.fire()
    await nights.until(TWO)
    await nights.fire()

    jobs = await nights.jobs()
    assert sorted(job.user_id for job in jobs) == names
    starts = sorted(job.wake_at for job in jobs if job.wake_at is not None)
    assert starts[-1] - starts[0] == timedelta(hours=4) - timedelta(seconds=36)


async def limited(
    world: World, schedule: Schedule, *limits: Limit, paced: bool = True
) -> tuple[App, Scheduler]:
    """An application whose source has these limits, five users, and a scheduler."""
    source: Any = ScriptedSource(nothing, "limited")
    source.budget = Budget("limited", limits, paced=paced)
    app = await world.app(Sync(name="notes", source=source), schedules=[schedule])
    for name in USERS:
        await app.users.seen(name)
    return app, Scheduler(app._runtime, worker="w")


@with_world
async def test_a_budget_that_is_too_small_is_told(world: World) -> None:
    app, scheduler = await limited(world, nightly(), Limit(3, per="day"))
    await scheduler.run_once()
    await world.clock.sleep(2 * HOUR)
    lines = logged()
    await scheduler.run_once()

    assert events(lines)[-1] == {
        "event": "budget_too_small",
        "schedule": "nightly",
        "tick": TWO.isoformat(),
        "requests_needed": 5,
        "requests_allowed": 3,
    }
    [tick] = await app.schedules.ticks("nightly")
    assert (tick.queued, tick.skipped) == (3, 2)


# ---- pausing and running -----------------------------------------------------------------------


@with_nights
async def test_a_paused_schedule_fires_nothing_and_catches_up_on_nothing(nights: Nights) -> None:
    schedules = nights.app.schedules
    lines = logged()
    await nights.users("ada")
    # Before any worker has stored it.
    assert (await schedules.get("nightly")).message == "It begins when a worker starts."
    view = await schedules.pause("nightly", by="ada", reason="maintenance")
    assert view.paused is not None
    assert (view.paused.by, view.paused.reason) == ("ada", "maintenance")
    assert view.next_tick_at is None
    assert view.next_runs[0] == TWO
    assert view.message.startswith("It has been paused by ada since 2026-01-01 00:00 UTC: ")
    await schedules.pause("nightly", by="bob")
    await nights.until(TWO + timedelta(days=3))

    assert await nights.fire() == SLEEP_S_MAX
    assert await nights.ticks() == []
    view = await schedules.resume("nightly", by="bob")
    assert (view.paused, view.next_tick_at) == (None, TWO + timedelta(days=4))
    await schedules.resume("nightly", by="bob")
    assert await nights.fire() == SLEEP_S_MAX
    assert await nights.ticks() == []
    await nights.until(TWO + timedelta(days=4))
    await nights.fire()

    assert len(await nights.ticks()) == 1
    names = [each["event"] for each in events(lines)]
    assert names[:2] == ["schedule_paused", "schedule_resumed"]


@with_nights
async def test_a_pause_and_a_resume_reach_a_scheduler_that_sleeps(nights: Nights) -> None:
    scheduler = nights.scheduler()
    nudged = scheduler._nudged
    nudged.clear()
    await nights.app.schedules.pause("nightly", by="ada")
    assert nudged.is_set()
    nudged.clear()
    await nights.app.schedules.resume("nightly", by="ada")
    assert nudged.is_set()


@with_nights
async def test_a_run_now_serves_everybody_and_moves_nothing(nights: Nights) -> None:
    await nights.users("ada", "bob")
    await nights.app.users.set_preferences("bob", time="07:30", frequency="monthly")
    await nights.fire()
    before = (await nights.app.schedules.get("nightly")).next_tick_at
    await nights.app.schedules.pause("nightly", by="ada")
    await nights.world.clock.sleep(HOUR)

    plan = await nights.app.schedules.plan("nightly", now=True)
    tick = await nights.app.schedules.run_now("nightly", by="ada")

    assert (tick.kind, tick.asked_by, tick.queued) == (TickKind.MANUAL, "ada", 2)
    jobs = await nights.jobs()
    assert [job.user_id for job in jobs] == ["ada", "bob"]
    assert [start.user_id for start in plan.starts] == ["ada", "bob"]
    starts = [job.wake_at - tick.tick for job in jobs if job.wake_at is not None]
    assert starts == [timedelta(0), timedelta(minutes=2)]
    view = await nights.app.schedules.resume("nightly", by="ada")
    assert view.next_tick_at == before
    # Whoever had a job lately is not due: bob wants one a month.
    await nights.until(TWO)
    await nights.fire()
    assert (await nights.skipped(TWO))["bob"] in (SkipReason.NOT_DUE, SkipReason.JOB_ACTIVE)


@with_nights
async def test_two_runs_at_the_same_moment_are_one(nights: Nights) -> None:
    await nights.users("ada")
    await nights.app.schedules.run_now("nightly", by="ada")
    with pytest.raises(Conflict, match="try again"):
        await nights.app.schedules.run_now("nightly", by="ada")


@with_nights
async def test_what_is_not_declared_or_not_valid_is_refused(nights: Nights) -> None:
    schedules = nights.app.schedules
    with pytest.raises(NotFound, match="no schedule 'weekly'; there are: nightly"):
        await schedules.get("weekly")
    for call in (
        schedules.plan("nightly", limit=0),
        schedules.pause("nightly", by=""),
        schedules.pause("nightly", by="ada", reason="a\nb"),
        schedules.get("nightly", runs=0),
        schedules.ticks("nightly", limit=10_000),
        schedules.history("nightly", days=0),
    ):
        with pytest.raises(InvalidInput):
            await call
    with pytest.raises(NotFound, match="has not fired"):
        await schedules.tick_users("nightly", TWO)


# ---- definitions -------------------------------------------------------------------------------


@with_nights
async def test_a_new_definition_counts_from_the_start_of_the_process_that_brings_it(
    nights: Nights,
) -> None:
    await nights.users("ada")
    old = nights.scheduler()
    await nights.fire(old)
    nights.schedule = nightly(cron="0 4 * * *")
    newer = await nights.open()
    await nights.fire(nights.scheduler(newer))

    await nights.until(TWO)
    # The old process knows that it is not its time any more, and does not undo it.
    assert await nights.fire(old) == SLEEP_S_MAX
    assert await nights.ticks() == []
    view = await nights.app.schedules.get("nightly")
    assert view.message == (
        "A worker runs it by another definition (cron 0 4 * * * in UTC) until it is restarted."
    )
    await nights.until(TWO + timedelta(hours=2))
    await nights.fire(nights.scheduler(newer))
    [tick] = await nights.ticks()
    assert tick.tick == TWO + timedelta(hours=2)


@with_nights
async def test_a_person_with_other_settings_changes_no_definition(nights: Nights) -> None:
    # Given a worker, and somebody whose shell has other settings
    await nights.users("ada")
    worker = nights.scheduler()
    await nights.fire(worker)
    nights.schedule = nightly(cron="0 4 * * *")
    shell = await nights.open()

    # When that person pauses it, then it is paused, and only who knows it can resume it
    await shell.schedules.pause("nightly", by="ops")
    with pytest.raises(Conflict, match=r"another definition, cron 0 2 \* \* \* in UTC"):
        await shell.schedules.resume("nightly", by="ops")
    await nights.app.schedules.resume("nightly", by="ops")

    # And the worker fires as before
    await nights.until(TWO)
    await nights.fire(worker)
    [tick] = await nights.ticks()
    assert tick.tick == TWO


@with_nights
async def test_a_row_that_somebody_deletes_is_stored_again(nights: Nights) -> None:
    scheduler = nights.scheduler()
    await nights.fire(scheduler)
    await nights.app.write(lambda tx: tx.exec_driver_sql("DELETE FROM headgate_schedules"))
    await nights.fire(scheduler)
    await nights.fire(scheduler)

    assert (await nights.app.schedules.get("nightly")).next_tick_at == TWO


@with_world
async def test_a_schedule_that_fails_keeps_no_other_from_firing(world: World) -> None:
    sync = Sync(name="notes", source=ScriptedSource(nothing))
    both = [nightly(name="bad"), nightly(name="good")]
    app = await world.app(sync, schedules=both)
    await app.users.seen("ada")
    scheduler = Scheduler(app._runtime, worker="w")
    await scheduler.run_once()
    await world.clock.sleep(2 * HOUR)
    fire = SqlSchedules.fire

    async def fail(self: SqlSchedules, new: Any) -> Any:
        if new.schedule == "bad":
            raise KeyError("bad")
        return await fire(self, new)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqlSchedules, "fire", fail)
        with pytest.raises(KeyError, match="bad"):
            await scheduler.run_once()

    assert await app.schedules.ticks("bad") == []
    assert len(await app.schedules.ticks("good")) == 1


@with_world
async def test_without_schedules_no_scheduler_runs(world: World) -> None:
    app = await world.app(Sync(name="notes", source=ScriptedSource(nothing)))
    assert app.supervisor()._schedulers == []
    assert await app.schedules.list() == []
    assert await app.schedules.stats() == []


# ---- views -------------------------------------------------------------------------------------


@as_test(play, nightly(tz="Europe/Berlin"))
async def test_a_schedule_tells_how_it_is_defined_and_what_comes_next(nights: Nights) -> None:
    await nights.fire()
    view = await nights.app.schedules.get("nightly", runs=3)

    assert view.message == "It runs next at 2026-01-01 01:00 UTC."
    assert view.description == "At 02:00 every day"
    assert (view.cron, view.tz, view.fresh_within_s) == ("0 2 * * *", "Europe/Berlin", None)
    assert (view.stagger_s, view.spread_s, view.active_within_s) == (120, None, 30 * DAY)
    assert view.next_runs == [datetime(2026, 1, day, 1, tzinfo=UTC) for day in (1, 2, 3)]
    assert await nights.app.schedules.next_runs("nightly", 1) == view.next_runs[:1]
    assert nights.app.schedules.names == ("nightly",)
    [listed] = await nights.app.schedules.list()
    assert listed.next_runs == view.next_runs[:1]


@with_nights
async def test_a_plan_tells_who_would_start_when_and_starts_nothing(nights: Nights) -> None:
    await nights.users("ada", "bob", "cleo")
    await nights.app.users.pause("bob", by="support")

    plan = await nights.app.schedules.plan("nightly")

    assert plan.tick == TWO
    assert [(start.user_id, start.starts_at) for start in plan.starts] == [
        ("ada", TWO),
        ("cleo", TWO + timedelta(minutes=2)),
    ]
    assert [(skip.user_id, skip.reason) for skip in plan.skips] == [("bob", SkipReason.USER_PAUSED)]
    assert plan.skips[0].message == "the user is paused: resume the user"
    assert (plan.users, plan.active_users, plan.queued) == (3, 2, 2)
    short = await nights.app.schedules.plan("nightly", limit=1)
    assert (len(short.starts), short.queued) == (1, 2)
    assert await nights.jobs() == []
    # As well once a worker has stored the schedule, and while its tick is overdue.
    await nights.fire()
    assert await nights.app.schedules.plan("nightly") == plan
    await nights.until(TWO + timedelta(hours=1))
    overdue = await nights.app.schedules.plan("nightly")
    assert overdue.starts[0].starts_at == TWO + timedelta(hours=1)


def test_history_tells_each_day_and_who_keeps_failing(tmp_path: Path) -> None:
    async def read(ctx: Context) -> Chunk:
        if ctx.user_id == "eve":
            raise Terminal("no")
        return Chunk(records=[])

    async def main(nights: Nights) -> None:
        worker = nights.app.supervisor()
        await worker.start()
        await nights.users("ada", "eve", "bob")
        await nights.app.users.pause("bob", by="support")
        await nights.until(START + timedelta(days=4, hours=1))
        await worker.stop()
        await nights.app.schedules.run_now("nightly", by="ada")

        history = await nights.app.schedules.history("nightly")

        days = {each.day.isoformat(): each for each in history.days}
        assert list(days) == [(START + timedelta(days=4 - n)).date().isoformat() for n in range(7)]
        today, yesterday, before = (
            days[name] for name in ("2026-01-05", "2026-01-04", "2025-12-31")
        )
        assert (today.ticks, today.queued, today.skipped, today.active) == (1, 2, 1, 2)
        assert (yesterday.succeeded, yesterday.failed, yesterday.active) == (1, 1, 0)
        assert (before.ticks, before.queued) == (0, 0)
        assert [(each.user_id, each.failures) for each in history.failing_users] == [("eve", 4)]
        assert history.failures_min == 3
        [stats] = await nights.app.schedules.stats()
        assert (stats.counts.ticks, stats.counts.queued, stats.counts.skipped) == (2, 4, 2)
        assert stats.ended == {JobState.SUCCESS: 1, JobState.FAILED: 1, JobState.CANCELLED: 0}
        assert stats.failing_users == 1

    play(tmp_path, main, read=read)


@with_world
async def test_the_stats_of_many_schedules_take_as_many_reads_as_those_of_one(
    world: World,
) -> None:
    async def reads(*names: str) -> int:
        sync = Sync(name="notes", source=ScriptedSource(nothing))
        app = await world.app(sync, schedules=[nightly(name=name) for name in names])
        counted = count_statements(app)
        assert [each.name for each in await app.schedules.stats()] == [*names]
        return counted.total()

    assert await reads("one", "two", "three") == await reads("one") > 0


@with_nights
async def test_old_ticks_are_pruned_by_a_worker(nights: Nights) -> None:
    sync = Sync(name="notes", source=nights.source)
    settings = lanes(lease_s=6 * HOUR, keep_ticks=timedelta(days=1))
    app = await nights.world.app(sync, schedules=[nights.schedule], worker=settings)
    await nights.users("ada")
    worker = app.supervisor()
    await worker.start()
    await nights.until(START + timedelta(days=3))
    await worker.stop()

    assert 1 <= len(await nights.ticks()) <= 2


# ---- goals -------------------------------------------------------------------------------------


def fresh(**fields: Any) -> Schedule:
    return Schedule(**{"name": "fresh", "sync": "notes", "fresh_within": "6h", **fields})


@as_test(play, fresh())
async def test_a_goal_keeps_everybodys_data_fresh(nights: Nights) -> None:
    await nights.users(*USERS)
    worker = nights.app.supervisor()
    await worker.start()
    await nights.until(START + timedelta(days=1))
    await worker.stop()

    jobs = await nights.jobs()
    for user in USERS:
        done = [job.finished_at for job in jobs if job.user_id == user and job.finished_at]
        fresh_from = [START, *sorted(done), nights.world.clock.now()]
        assert max(b - a for a, b in pairwise(fresh_from)) < timedelta(hours=6)
    # Every five hours and a half, not more often than that.
    assert 5 * 4 <= len(jobs) <= 5 * 5
    ticks = await nights.ticks()
    assert {tick.kind for tick in ticks} == {TickKind.FRESH}
    assert sum(tick.queued for tick in ticks) == len(jobs)
    assert (await nights.app.schedules.plan("fresh")).freshness is not None


@as_test(play, fresh())
async def test_a_goal_says_what_it_looks_for_and_has_no_ticks_ahead(nights: Nights) -> None:
    await nights.fire()
    view = await nights.app.schedules.get("fresh")

    assert view.next_runs == []
    assert view.fresh_within_s == 6 * HOUR
    assert view.message.startswith("It looks for data that gets too old at 2026-01-01 00:07")


@with_world
async def test_a_goal_that_cannot_be_reached_says_what_it_would_take(world: World) -> None:
    # The limit on uploads is none on what is read.
    uploads = Limit(1, per="day", only="upload")
    app, scheduler = await limited(world, fresh(), Limit(10, per="day"), uploads)
    lines = logged()
    await scheduler.run_once()

    assert "budget_too_small" in [each["event"] for each in events(lines)]
    report = (await app.schedules.plan("fresh", limit=2)).freshness
    assert report is not None
    assert (report.users, report.stale_count, len(report.stale)) == (5, 5, 2)
    assert (report.requests_needed_a_day, report.requests_allowed_a_day) == (23, 10)
    assert report.message == (
        "The provider's limits are not enough to keep the data of 5 users within 6h; "
        "they are enough for 13h48m."
    )
    await world.clock.sleep(1)
    asked = await app.schedules.run_now("fresh", by="ada")
    assert (asked.kind, asked.queued, asked.skipped) == (TickKind.MANUAL, 4, 1)


@with_world
async def test_a_goal_leaves_what_is_reserved_for_live_work(world: World) -> None:
    goal = fresh(lane="cold", fresh_within="7d")
    app, scheduler = await limited(world, goal, Limit(10, per="day", reserve=8), paced=False)
    await scheduler.run_once()

    [tick] = await app.schedules.ticks("fresh")
    assert tick.queued == 1
