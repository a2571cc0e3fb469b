"""Estimates of the end of imports, held against what happens, in virtual time."""

from datetime import date, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from headgate import (
    App,
    Batch,
    Budget,
    Chunk,
    Context,
    DayCost,
    Document,
    Item,
    JobRequest,
    JobState,
    Limit,
    NewItem,
    RateLimited,
    Reason,
    Record,
    RetryPolicy,
    Sync,
    Transient,
)
from headgate.model.forecast import Finish
from headgate.model.job import Lane
from headgate.types import Job
from tests.worlds import START, Read, ScriptedSource, World, with_world

LAST = date(2025, 12, 28)
COSTS = (DayCost(provider="watch", least=2, most=6),)
#: A day's limit that no import here reaches, and pauses between requests.
ROOMY = Budget("watch", [Limit(600, per="15min"), Limit(5000, per="day", reserve=500)])
HASTY = RetryPolicy(backoff_s=30.0, jitter=0.0, errors_max=1, cooldown_s=600.0)


def reading(requests: int, seconds: float = 0.5) -> Read:
    """A source that sends so many requests a day, each of which takes so long."""

    async def read(ctx: Context) -> Chunk:
        for _ in range(requests):
            async with ctx.gate.request():
                await ctx.clock.sleep(seconds)
        return Chunk(records=[Record(f"run {ctx.day}", {})])

    return read


def sync(read: Read, budget: Budget | None = ROOMY, **more: Any) -> Sync:
    source: Any = ScriptedSource(read, "watch")
    source.budget = budget
    return Sync(name="history", source=source, **{"day_costs": COSTS, "retry": HASTY, **more})


def asked(days: int, user: str = "ada", last: date = LAST) -> JobRequest:
    first = last - timedelta(days=days - 1)
    return JobRequest(user_id=user, source="watch", start_date=first, end_date=last)


async def begin(app: App, days: int, user: str = "ada", last: date = LAST) -> Job:
    return (await app.jobs.submit(asked(days, user, last))).job


async def finish_of(app: App, days: int, user: str = "ada", last: date = LAST) -> Finish:
    finish = (await app.jobs.forecast(asked(days, user, last))).finish
    assert finish is not None
    return finish


async def end_of(world: World, app: App, job: Job) -> datetime:
    job = await world.until(app, job.id)
    assert job.state is JobState.SUCCESS and job.finished_at is not None
    return job.finished_at


def width(finish: Finish) -> timedelta:
    return finish.latest - finish.earliest


@pytest.mark.parametrize("days", [10, 100, pytest.param(300, marks=pytest.mark.thorough)])
@with_world
async def test_an_import_ends_in_the_range_that_was_told(world: World, days: int) -> None:
    app = await world.at_work(sync(reading(4)))
    told = await finish_of(app, days)
    job = await begin(app, days)
    while (await app.jobs.get(job.id)).progress.done < days / 2:
        await world.clock.sleep(1)
    half = (await app.jobs.status(job.id)).finish
    assert half is not None

    ended = await end_of(world, app, job)

    assert told.earliest <= ended <= told.latest
    assert half.earliest <= ended <= half.latest
    # A day's limit that is not reached does not make it longer: it was spread over the day.
    assert told.latest - START < 6 * (ended - START)
    assert abs(half.likely - ended) < 0.05 * (ended - START)


@with_world
async def test_the_destination_takes_its_time_too(world: World) -> None:
    class Shelf:
        name = "shelf"

        async def write(self, batch: Batch) -> None:
            await batch.clock.sleep(3)

    app = await world.at_work(sync(reading(2), destination=Shelf()))
    job = (await app.jobs.submit(replace(asked(40), destination="shelf"))).job
    while (await app.jobs.get(job.id)).progress.done < 20:
        await world.clock.sleep(1)

    pace = (await app.jobs.get(job.id)).summary.pace
    finish = (await app.jobs.status(job.id)).finish

    assert pace.work_s["shelf"] / pace.units == pytest.approx(3, rel=0.01)
    assert finish is not None
    assert finish.earliest <= await end_of(world, app, job) <= finish.latest


@with_world
async def test_where_a_limit_is_the_bottleneck_it_is_waited_for(world: World) -> None:
    # 40 requests an hour for the backfill, and 120 to send: two hours are waited for.
    tight = Budget("watch", [Limit(50, per="hour", reserve=10)], paced=False)
    app = await world.at_work(sync(reading(4), tight))
    told = await finish_of(app, 30)

    ended = await end_of(world, app, await begin(app, 30))

    assert timedelta(hours=2) <= ended - START <= timedelta(hours=2, minutes=5)
    assert told.earliest <= ended <= told.latest


@with_world
async def test_a_job_that_sleeps_for_a_window_goes_on_after_it(world: World) -> None:
    tight = Budget("watch", [Limit(40, per="hour")], paced=False)
    app = await world.at_work(sync(reading(4), tight))
    job = await begin(app, 15)
    await world.clock.sleep(600)

    status = await app.jobs.status(job.id)

    assert (status.state, status.progress.done) == (JobState.PENDING, 10)
    assert status.finish is not None and status.wake_at is not None
    assert status.wake_at < status.finish.earliest
    ended = await end_of(world, app, job)
    assert status.finish.earliest <= ended <= status.finish.latest


@with_world
async def test_the_range_narrows_with_what_is_known(world: World) -> None:
    app = await world.at_work(sync(reading(3)))
    # Nobody has imported anything; then another user has; then this one.
    new = await finish_of(app, 100)
    await end_of(world, app, await begin(app, 30, "bob"))
    seen_at, seen = world.clock.now(), await finish_of(app, 100)
    await end_of(world, app, await begin(app, 30))
    known_at = world.clock.now()
    last = LAST - timedelta(days=30)
    known = await finish_of(app, 100, last=last)

    assert width(known) < width(seen) < width(new)
    # Requests are foreseen by the user's own rate too.
    [requests] = (await app.jobs.forecast(asked(100, last=last))).requests
    assert 250 < requests.least < 300 < requests.most < 350
    ended = await end_of(world, app, await begin(app, 100, last=last))
    assert known.earliest <= ended <= known.latest
    took = ended - known_at
    assert abs(known.likely - ended) < 0.15 * took
    assert seen.earliest <= seen_at + took <= seen.latest


@with_world
async def test_a_sync_without_declared_costs_learns_them(world: World) -> None:
    app = await world.at_work(sync(reading(3), day_costs=()))
    nothing = await app.jobs.forecast(asked(30))
    assert (nothing.finish, nothing.takes, nothing.requests) == (None, None, ())
    job = await begin(app, 30, "bob")
    await world.clock.sleep(1)
    assert (await app.jobs.status(job.id)).time_left == "Estimating the time left…"
    await end_of(world, app, job)

    began, told = world.clock.now(), await finish_of(app, 30)

    ended = await end_of(world, app, await begin(app, 30))
    assert told.earliest <= ended <= told.latest
    assert told.latest - began < 2 * (ended - began)


@with_world
async def test_others_who_need_the_same_limit_make_it_longer(world: World) -> None:
    # A paced budget for everybody: one request in three seconds.
    shared = Budget("watch", [Limit(300, per="15min")])
    app = await world.at_work(sync(reading(4), shared))
    alone = await finish_of(app, 40)
    jobs = [await begin(app, 100, user) for user in ("bob", "eve")]
    await app.jobs.pause(jobs[1].id)
    await world.clock.sleep(60)

    # One of them is paused, and takes nothing
    together = await finish_of(app, 40)

    assert together.likely - world.clock.now() > 1.6 * (alone.likely - START)
    assert together.likely - world.clock.now() < 2.4 * (alone.likely - START)
    ended = await end_of(world, app, await begin(app, 40))
    assert together.earliest <= ended <= together.latest


@with_world
async def test_live_work_is_foreseen_by_its_rate(world: World) -> None:
    # Requests that take half a minute, so that live work meanwhile takes its part.
    busy = Budget("watch", [Limit(120, per="hour", reserve=10)], paced=False)
    app = await world.at_work(sync(reading(2, 30), busy))
    await end_of(world, app, await begin(app, 20, "bob"))
    await world.clock.sleep(3600)
    asked_at, quiet = world.clock.now(), await finish_of(app, 60)
    gate = app._runtime.gates.of(busy, Lane.HOT, "live")
    for _ in range(20):
        await world.clock.sleep(85)
        async with gate.request():
            pass

    began, told = world.clock.now(), await finish_of(app, 60)

    assert told.likely - began > 1.1 * (quiet.likely - asked_at)


@with_world
async def test_without_the_limiter_the_limits_alone_are_known(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a window of which a backfill has had all
    spent = Budget("watch", [Limit(60, per="15min", reserve=30)], paced=False)
    app = await world.app(sync(reading(1), spent, day_costs=[COSTS[0]]))
    gate = app._runtime.gates.of(spent, Lane.HOT, "ada")
    for _ in range(30):
        async with gate.request():
            pass
    known = await finish_of(app, 10)

    # When how it stands can no longer be asked
    async def use(*_: object, **__: object) -> None:
        return None

    monkeypatch.setattr(app._runtime.gates, "use", use)
    unknown = await finish_of(app, 10)

    # Then the end of this window is not waited for first
    assert known.earliest - START > timedelta(minutes=14)
    assert unknown.earliest - START < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("error", "reason", "told"),
    [
        (Transient("503"), Reason.RETRYING, "No estimate while requests to watch fail."),
        (RateLimited(timedelta(minutes=5)), Reason.RATE_LIMITED, None),
    ],
)
@with_world
async def test_while_requests_fail_nobody_is_told_an_end(
    world: World, error: Exception, reason: Reason, told: str | None
) -> None:
    errors = [error]
    usual = reading(4)

    async def read(ctx: Context) -> Chunk:
        if ctx.chunks == 20 and errors:
            raise errors.pop()
        return await usual(ctx)

    app = await world.at_work(sync(read))
    job = await begin(app, 40)
    while (await app.jobs.get(job.id)).reason is not reason:
        await world.clock.sleep(1)

    status = await app.jobs.status(job.id)
    if told is None:
        # It goes on at a known time.
        assert status.finish is not None and status.wake_at is not None
        assert status.finish.earliest > status.wake_at
    else:
        assert (status.finish, status.time_left) == (None, told)
        # Until one succeeds
        while (await app.jobs.get(job.id)).progress.done < 22:
            await world.clock.sleep(1)
        assert (await app.jobs.status(job.id)).finish is not None


@with_world
async def test_while_it_is_paused_nobody_is_told_an_end(world: World) -> None:
    app = await world.at_work(sync(reading(4)))
    job = await begin(app, 40)
    await world.clock.sleep(20)
    await app.jobs.pause(job.id)
    asked_for = await app.jobs.status(job.id)
    assert asked_for.time_left == "No estimate: it will be paused."
    await world.until(app, job.id, JobState.PAUSED)

    paused = await app.jobs.status(job.id)

    assert (paused.finish, paused.time_left) == (None, "No estimate while it is paused.")
    await world.clock.sleep(3600)
    await app.jobs.resume(job.id)
    await world.clock.sleep(10)
    # The pause is not part of its pace
    status = await app.jobs.status(job.id)
    assert status.finish is not None
    ended = await end_of(world, app, job)
    assert status.finish.earliest <= ended <= status.finish.latest


@with_world
async def test_what_chunks_took_is_stored_with_the_job(world: World) -> None:
    slow = Budget("watch", [Limit(90, per="15min")])
    app = await world.at_work(sync(reading(2, 1.0), slow))
    job = await world.until(app, (await begin(app, 10)).id)

    pace = job.summary.pace

    assert pace.chunks == pace.units == pytest.approx(10, rel=0.05)
    assert pace.requests["watch"]["read"] / pace.units == pytest.approx(2, rel=0.01)
    # A second for each request; the pause of ten seconds between two is not the provider's.
    assert pace.work_s["watch"] / pace.units == pytest.approx(2, rel=0.01)
    assert pace.seconds / pace.units == pytest.approx(19, rel=0.2)


# ---- items -------------------------------------------------------------------------------------


def listing(items: int, page: int = 50) -> Read:
    """A source that first lists so many items, and then fetches them, a second each."""

    async def fetch(ctx: Context, item: Item) -> Document:
        async with ctx.gate.request():
            await ctx.clock.sleep(1)
        return Document.of_json({"name": item.id})

    async def read(ctx: Context) -> Chunk:
        listed = ctx.cursor if isinstance(ctx.cursor, int) else 0
        if ctx.cursor is None:
            return Chunk(cursor=0, progress=await ctx.items.progress("photos"))
        if listed < items:
            await ctx.items.register(
                [photo(ctx, number) for number in range(listed, min(items, listed + page))]
            )
            return Chunk(cursor=listed + page, progress=await ctx.items.progress("photos"))
        fetched = await ctx.items.fetch_due(ctx, "photos", fetch)
        progress = await ctx.items.progress("photos")
        return Chunk.of_items(fetched, cursor=listed, progress=progress)

    return read


def photo(ctx: Context, number: int) -> NewItem:
    return NewItem(
        id=f"photo {number:04}",
        collection="photos",
        user_id=ctx.user_id,
        connection_id=ctx.connection_id,
        external_id=str(number),
        start_time=START,
    )


@pytest.mark.parametrize(
    ("before", "lane"),
    [
        (0, Lane.HOT),
        (100, Lane.COLD),
        pytest.param(0, Lane.COLD, marks=pytest.mark.thorough),
        pytest.param(100, Lane.HOT, marks=pytest.mark.thorough),
    ],
)
@with_world
async def test_the_end_of_a_job_over_items_is_told_by_its_own_rate(
    world: World, before: int, lane: Lane
) -> None:
    # Given a user of whom some items are there already
    items = before
    app = await world.at_work(sync(lambda ctx: listing(items)(ctx), day_costs=()))

    async def submit() -> Job:
        submitted = await app.jobs.submit("history", user_id="ada", lane=lane)
        return submitted.job

    if before:
        await end_of(world, app, await submit())
    items = before + 100
    began = world.clock.now()
    job = await submit()
    while (await app.jobs.get(job.id)).progress.done < before + 50:
        await world.clock.sleep(1)

    status = await app.jobs.status(job.id)

    # Then the half that is left takes as long as the first
    ended = await end_of(world, app, job)
    assert status.progress.total == before + 100
    assert status.finish is not None
    assert status.finish.earliest <= ended <= status.finish.latest
    assert abs(status.finish.likely - ended) < 0.05 * (ended - began)
