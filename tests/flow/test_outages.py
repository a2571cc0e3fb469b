"""Outages: what fails together with others waits, and only what fails alone is given up."""

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest

from headgate import (
    App,
    AuthExpired,
    Batch,
    Chunk,
    Context,
    DayStatus,
    JobState,
    RateLimited,
    Reason,
    Record,
    RetryPolicy,
    Sync,
    Transient,
    WriteResult,
)
from headgate.base.clock import Clock
from headgate.base.errors import FaultKind, StoreFault
from headgate.errors import BudgetSpent
from headgate.types import Job
from tests.flow.sources import raising
from tests.worlds import Read, ScriptedSource, World, with_world

DAY = date(2025, 12, 24)
HOUR_S = 3600.0
#: A day is given up at its first failure, unless others fail too.
HASTY = RetryPolicy(attempts_max=1, pauses_max=0)


async def a_day(ctx: Context) -> Chunk:
    return Chunk(records=[Record(str(ctx.day), {})])


def failing(fails: Callable[[Context], bool]) -> Read:
    """A source that fails where it is told to."""

    async def read(ctx: Context) -> Chunk:
        if fails(ctx):
            raise Transient("503")
        return await a_day(ctx)

    return read


async def submit(app: App, *, user: str = "ada", days: int = 4, sync: str = "history") -> Job:
    start = DAY - timedelta(days=days - 1)
    submitted = await app.jobs.submit(
        sync,
        user_id=user,
        mode="history",
        start_date=start,
        end_date=DAY,
    )
    return submitted.job


async def begun(world: World, read: Read, *, days: int = 4, **more: Any) -> tuple[App, Job]:
    """A worker that has an import of Ada's to do."""
    app = await world.app(Sync(name="history", source=ScriptedSource(read), **more))
    job = await submit(app, days=days)
    await app.supervisor().start()
    return app, job


async def played(world: World, read: Read, *states: JobState, days: int = 4, **more: Any) -> Job:
    """That import at its end, or in one of these states."""
    app, job = await begun(world, read, days=days, **more)
    return await world.until(app, job.id, *states)


def is_down(clock: Clock, *, hours: float) -> bool:
    return clock.monotonic() < hours * HOUR_S


@pytest.mark.parametrize(
    ("hours", "days"),
    [
        (0.5, 4),
        (5, 1),
        *(pytest.param(*each, marks=pytest.mark.thorough) for each in ((0.5, 1), (12, 4), (30, 1))),
    ],
)
@with_world
async def test_an_outage_loses_no_day_however_long_it_is(
    world: World, hours: float, days: int
) -> None:
    read = failing(lambda ctx: is_down(ctx.clock, hours=hours))
    job = await played(world, read, days=days)

    assert (job.state, job.reason) == (JobState.SUCCESS, Reason.DONE)
    assert (job.summary.days_held, job.summary.days_failed) == (days, 0)
    assert world.clock.monotonic() < (hours + 1.5) * HOUR_S


@with_world
async def test_during_an_outage_the_job_says_that_it_is_paused_and_until_when(world: World) -> None:
    read = failing(lambda ctx: True)
    app, job = await begun(world, read)

    await world.clock.sleep(11.5 * HOUR_S)

    job = await app.jobs.get(job.id)
    assert (job.state, job.reason) == (JobState.PAUSED, Reason.BREAKER)
    assert job.summary.days_failed == 0
    assert "We will automatically resume at 2026-01-01 12:0" in (await app.jobs.view(job)).message


@with_world
async def test_a_provider_that_never_comes_back_fails_the_job_and_leaves_no_gap(
    world: World,
) -> None:
    read = failing(lambda ctx: True)
    patient = RetryPolicy(outage_pauses_max=9)
    app, job = await begun(world, read, retry=patient)

    job = await world.until(app, job.id)

    assert (job.state, job.reason) == (JobState.FAILED, Reason.ATTEMPTS_SPENT)
    assert (job.summary.pauses, job.summary.days_failed) == (9, 0)
    assert (await app.jobs.view(job)).retryable


@with_world
async def test_days_that_always_fail_are_given_up_while_the_others_go_on(world: World) -> None:
    # Given two bad days next to each other, and no other user
    bad = (DAY - timedelta(days=1), DAY - timedelta(days=2))
    read = failing(lambda ctx: ctx.day in bad)
    app, job = await begun(world, read)

    job = await world.until(app, job.id)

    assert (job.state, job.reason) == (JobState.SUCCESS, Reason.DONE_WITH_GAPS)
    rows = await app.records.coverage("history", "ada", start=DAY - timedelta(days=3), end=DAY)
    failed = [row.day for row in rows if row.status is DayStatus.FAILED]
    assert failed == sorted(bad)
    assert job.summary.days_held == 2


@pytest.mark.parametrize("in_part", [False, True])
@with_world
async def test_a_provider_that_comes_back_just_after_a_day_failed_costs_no_day(
    world: World, in_part: bool
) -> None:
    # Given a provider that fails once, perhaps after some records, and answers at the trial
    reads: list[date | None] = []

    async def read(ctx: Context) -> Chunk:
        reads.append(ctx.day)
        error = Transient("503") if len(reads) == 1 else None
        if error is not None and not in_part:
            raise error
        return Chunk(records=[Record(str(ctx.day), {})], error=error)

    job = await played(world, read, days=1, retry=HASTY)

    assert (job.reason, job.summary.days_held) == (Reason.DONE, 1)
    assert reads == [DAY, DAY - timedelta(days=1), DAY]


@pytest.mark.parametrize("in_part", [False, True])
@with_world
async def test_a_bad_day_is_given_up_alone(world: World, in_part: bool) -> None:
    # Given a day that always takes too long, or breaks off after some records
    async def read(ctx: Context) -> Chunk:
        if ctx.day == DAY and not in_part:
            await ctx.clock.sleep(1e6)
        error = Transient("503") if ctx.day == DAY else None
        return Chunk(records=[Record(str(ctx.day), {})], error=error)

    job = await played(world, read, retry=HASTY, chunk_s_max=60)

    assert (job.summary.days_held, job.summary.days_failed) == (3, 1)


@with_world
async def test_the_first_days_of_an_import_may_be_the_bad_ones(world: World) -> None:
    # Given three bad days at the beginning: no day is known that can be read
    read = failing(lambda ctx: ctx.day is not None and ctx.day > DAY - timedelta(days=3))
    job = await played(world, read)

    assert (job.summary.days_held, job.summary.days_failed) == (1, 3)


async def stuck_at_the_trial(ctx: Context) -> Chunk:
    """A bad day, and a trial of another that does not end."""
    if ctx.day == DAY:
        raise Transient("503")
    await ctx.clock.sleep(1e6)
    return Chunk()


@with_world
async def test_a_trial_that_takes_too_long_is_an_outage(world: World) -> None:
    retry = HASTY
    job = await played(world, stuck_at_the_trial, JobState.PAUSED, retry=retry, chunk_s_max=60)

    assert job.reason is Reason.BREAKER


@with_world
async def test_a_worker_that_stops_during_a_trial_releases_the_job(world: World) -> None:
    source = ScriptedSource(stuck_at_the_trial)
    app = await world.app(Sync(name="history", source=source, retry=HASTY))
    job = await submit(app)
    supervisor = app.supervisor()
    await supervisor.start()
    await world.clock.sleep(30)

    await supervisor.stop()

    job = await app.jobs.get(job.id)
    assert (job.state, job.reason) == (JobState.PENDING, Reason.RELEASED)
    assert job.summary.errors == 0


@pytest.mark.parametrize("own", [KeyError("vanue"), Transient("503")], ids=repr)
@pytest.mark.parametrize(
    ("of_trial", "reason"),
    [
        (BudgetSpent(timedelta(minutes=5)), Reason.RATE_LIMITED),
        (RateLimited(timedelta(minutes=5)), Reason.RATE_LIMITED),
        (StoreFault(FaultKind.DISK_FULL, "no space is left"), Reason.DISK_FULL),
        (Transient("503"), Reason.BREAKER),
    ],
    ids=repr,
)
@with_world
async def test_a_trial_that_cannot_tell_fails_no_job_and_gives_up_no_day(
    world: World, own: Exception, of_trial: Exception, reason: Reason
) -> None:
    # Given a bad day, and another that cannot be read just now
    errors = [of_trial]

    async def read(ctx: Context) -> Chunk:
        if ctx.day == DAY:
            raise own
        if errors:
            raise errors.pop()
        return await a_day(ctx)

    policy = RetryPolicy(attempts_max=1, pauses_max=0, outage_pauses_max=1)
    app, job = await begun(world, read, retry=policy)
    await world.clock.sleep(1)

    # Then the job waits for that, and gives up the bad day alone when it can tell
    job = await app.jobs.get(job.id)
    assert (job.reason, job.summary.days_failed) == (reason, 0)
    job = await world.until(app, job.id)
    assert (job.summary.days_held, job.summary.days_failed) == (3, 1)


@pytest.mark.parametrize("own", [KeyError("vanue"), Transient("503")], ids=repr)
@with_world
async def test_a_trial_that_needs_a_new_sign_in_asks_for_it(world: World, own: Exception) -> None:
    async def read(ctx: Context) -> Chunk:
        raise own if ctx.day == DAY else AuthExpired("401")

    job = await played(world, read, retry=HASTY)

    assert (job.reason, job.summary.days_failed) == (Reason.NEEDS_REAUTH, 0)


# ---- other users -------------------------------------------------------------------------------


@with_world
async def test_while_other_users_fail_too_no_day_is_given_up(world: World) -> None:
    # Given a provider that fails for one day of Ada's, and later for all of Bob's
    read = failing(lambda ctx: ctx.user_id == "bob" or ctx.day == DAY)
    app = await world.app(Sync(name="history", source=ScriptedSource(read)))
    ada = await submit(app)
    await app.supervisor().start()
    await world.clock.sleep(2.5 * HOUR_S)
    bob = await submit(app, user="bob")

    # When Ada's pauses are spent
    await world.clock.sleep(1.2 * HOUR_S)

    # Then her job waits although her other days can be read, and nothing is given up
    ada = await app.jobs.get(ada.id)
    assert (ada.reason, ada.summary.days_failed) == (Reason.BREAKER, 0)
    assert ada.summary.pauses > RetryPolicy().pauses_max

    # And goes on once Bob's does not fail any more
    await app.jobs.cancel(bob.id)
    ada = await world.until(app, ada.id)
    assert (ada.summary.days_held, ada.summary.days_failed) == (3, 1)


@with_world
async def test_two_users_with_a_bad_day_each_do_not_wait_for_each_other(world: World) -> None:
    bad = {"ada": DAY, "bob": DAY - timedelta(days=1)}
    read = failing(lambda ctx: ctx.day == bad[ctx.user_id])
    app = await world.app(Sync(name="history", source=ScriptedSource(read)))
    jobs = [await submit(app, user=user) for user in bad]
    await app.supervisor().start()

    ended = [await world.until(app, job.id, limit_s=24 * HOUR_S) for job in jobs]

    assert [job.summary.days_failed for job in ended] == [1, 1]
    assert [job.summary.days_held for job in ended] == [3, 3]


@pytest.mark.parametrize("others", [True, False])
@with_world
async def test_a_job_without_days_stays_paused_only_while_other_users_fail_too(
    world: World, others: bool
) -> None:
    app = await world.app(Sync(name="pages", source=ScriptedSource(raising(Transient, "503"))))
    users = ["ada", "bob"] if others else ["ada"]
    jobs = [(await app.jobs.submit("pages", user_id=user)).job for user in users]
    await app.supervisor().start()

    await world.clock.sleep(12.5 * HOUR_S)

    states = {(await app.jobs.get(job.id)).state for job in jobs}
    assert states == {JobState.PAUSED if others else JobState.FAILED}


# ---- destinations ------------------------------------------------------------------------------


class Shelf:
    """A destination that is down until an hour, and never takes some records."""

    name = "shelf"

    def __init__(self, *, hours: float = 0.0, never: frozenset[str] = frozenset()) -> None:
        self._hours = hours
        self._never = never
        #: What it took, by the key of the batch.
        self.taken: dict[str, list[str]] = {}

    async def write(self, batch: Batch) -> WriteResult:
        names = [record.key for record in batch.records]
        if is_down(batch.clock, hours=self._hours) or self._never & set(names):
            raise Transient("the shelf is closed")
        assert self.taken.setdefault(batch.key, names) == names
        return WriteResult()


@with_world
async def test_an_outage_of_the_destination_loses_no_day(world: World) -> None:
    shelf = Shelf(hours=5)
    job = await played(world, a_day, destination=shelf)

    assert (job.reason, job.summary.days_held) == (Reason.DONE, 4)
    assert len(shelf.taken) == 4


@with_world
async def test_a_day_that_the_destination_never_takes_is_given_up_alone_and_nothing_comes_twice(
    world: World,
) -> None:
    # Given a bad day, after which comes one without records
    empty = DAY - timedelta(days=1)
    shelf = Shelf(never=frozenset({str(DAY)}))

    async def read(ctx: Context) -> Chunk:
        return Chunk() if ctx.day == empty else await a_day(ctx)

    job = await played(world, read, destination=shelf, retry=HASTY)

    # Then the trial was written under the key of the chunk itself, which the shelf took once
    assert (job.summary.days_held, job.summary.days_failed) == (2, 1)
    assert sorted(shelf.taken) == [f"{job.id}:2", f"{job.id}:3"]


@pytest.mark.parametrize("days", [1, 20])
@with_world
async def test_a_destination_that_no_other_day_can_test_is_waited_for(
    world: World, days: int
) -> None:
    # Given a destination that is down, and no other day with records near
    async def read(ctx: Context) -> Chunk:
        return await a_day(ctx) if ctx.day == DAY else Chunk()

    shelf = Shelf(hours=5)
    job = await played(world, read, days=days, destination=shelf)

    assert (job.reason, job.summary.days_held) == (Reason.DONE, 1)


@with_world
async def test_a_day_that_breaks_off_tests_no_destination(world: World) -> None:
    async def read(ctx: Context) -> Chunk:
        error = None if ctx.day == DAY else Transient("503")
        return Chunk(records=[Record(str(ctx.day), {})], error=error)

    shelf = Shelf(never=frozenset({str(DAY)}))
    job = await played(world, read, JobState.PAUSED, destination=shelf, retry=HASTY)

    assert (job.reason, shelf.taken) == (Reason.BREAKER, {})
