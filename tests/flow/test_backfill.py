"""Imports as people ask for them: plans, connections, destinations, forecasts, how it stands."""

import types
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

import msgspec
import pytest

from headgate import (
    App,
    AuthExpired,
    Batch,
    Budget,
    Chunk,
    ConnectionReason,
    Context,
    DayCost,
    InvalidInput,
    JobRequest,
    JobState,
    Limit,
    NotFound,
    RateLimited,
    Reason,
    Record,
    Refusal,
    Reprocess,
    RetryPolicy,
    Sync,
    Transient,
    WriteResult,
    paid_history,
)
from headgate.base.times import format_time
from headgate.errors import NotConnected, PlanRequired
from headgate.flow.jobs.submit import check, plan_days
from headgate.flow.jobs.view import POLL_RESTING_S, POLL_WORKING_S, Reconnect
from headgate.flow.step.commit import commit_chunk
from headgate.model import change
from headgate.types import Job
from tests.connecting import Site, strava_source, vault
from tests.flow.sources import raising
from tests.unit.values import make_job
from tests.worlds import START, ScriptedSource, World, with_world

FIRST, LAST = date(2025, 12, 1), date(2025, 12, 30)
HASTY = RetryPolicy(backoff_s=1.0, errors_max=1, cooldown_s=600.0, pauses_max=1, stagger_s=1.0)


class Shelf:
    """A destination that takes what it is given, as the test says."""

    name, title = "shelf", "Shelf"

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.errors: list[Exception] = []
        self.refuses: set[str] = set()

    async def write(self, batch: Batch) -> WriteResult:
        if self.errors:
            raise self.errors.pop(0)
        self.batches.append(batch)
        taken = [each for each in batch.records if each.key not in self.refuses]
        refused = [each for each in batch.records if each.key in self.refuses]
        return WriteResult(
            receipts=[Record(each.key, {"shelf": len(self.batches)}) for each in taken],
            refused=[Refusal(each.key, f"{each.key} does not fit") for each in refused],
        )


async def a_day(ctx: Context) -> Chunk:
    kept = [Record(f"day {ctx.day}", {"steps": 1})]
    return Chunk(records=[Record(f"run {ctx.day}", {"km": 5})], kept=kept)


def sync(source: Any = None, destination: Any = None, **more: Any) -> Sync:
    return Sync(
        name="history",
        source=source or ScriptedSource(a_day, "watch"),
        destination=destination,
        retry=HASTY,
        **more,
    )


def asked(**fields: Any) -> JobRequest:
    given = {"user_id": "ada", "source": "watch", "start_date": FIRST, "end_date": LAST, **fields}
    return JobRequest(**given)


async def delivering(
    world: World, shelf: Shelf, *, chunk_s_max: float = 60.0, **fields: Any
) -> tuple[App, Job]:
    """A worker that delivers to the shelf, and an import that was just started."""
    app = await world.at_work(sync(destination=shelf, chunk_s_max=chunk_s_max))
    return app, (await app.jobs.submit(asked(destination="shelf", **fields))).job


async def stored(app: App, job: Job) -> dict[str, object]:
    records = await app.records.list(job.sync, job.connection_id)
    return {each.key: each.data for each in records}


# ---- a destination -----------------------------------------------------------------------------


@with_world
async def test_records_go_to_the_destination_and_receipts_stay_with_what_is_kept(
    world: World,
) -> None:
    shelf = Shelf()
    app, started = await delivering(world, shelf, start_date=LAST)
    assert (started.destination, started.provider) == ("shelf", "watch")

    job = await world.until(app, started.id)

    assert [each.key for each in shelf.batches[0].records] == [f"run {LAST}"]
    assert await stored(app, job) == {f"run {LAST}": {"shelf": 1}, f"day {LAST}": {"steps": 1}}
    assert (job.summary.records, job.summary.delivered) == (1, 1)


@with_world
async def test_what_a_destination_refuses_is_told_with_its_day_and_stops_nothing(
    world: World,
) -> None:
    shelf = Shelf()
    shelf.refuses = {"run 2025-12-29"}
    app, started = await delivering(world, shelf)

    job = await world.until(app, started.id)
    status = await app.jobs.status(job.id)

    assert (job.state, job.reason) == (JobState.SUCCESS, Reason.DONE_WITH_GAPS)
    assert status.message == "Done, but 1 record was refused."
    [gap] = status.gaps
    assert gap.day == date(2025, 12, 29)
    assert gap.reason == "Shelf did not take some of this day's records."
    assert gap.error is not None and gap.error.message == "run 2025-12-29 does not fit"
    assert (status.counts.imported, status.counts.refused) == (29, 1)
    assert status.source_counts == {}


@pytest.mark.parametrize(
    "error", [Transient("503"), OSError("reset by peer")], ids=["transient", "network"]
)
@with_world
async def test_a_destination_that_fails_is_the_one_to_blame(world: World, error: Exception) -> None:
    # Given a destination that is down
    shelf = Shelf()
    shelf.errors = [error, error]
    app, started = await delivering(world, shelf)

    # Then the breaker opens and names it, with the failures and the time that it ends
    paused = await world.until(app, started.id, JobState.PAUSED)
    assert (paused.reason, paused.provider) == (Reason.BREAKER, "shelf")
    assert len(paused.recent_errors) == 2
    assert paused.wake_at is not None
    assert (await app.jobs.view(paused)).message == (
        "Syncing is temporarily paused because the Shelf servers are busy. "
        f"We will automatically resume at {format_time(paused.wake_at)}."
    )

    # and after its cool-down it goes on, and every record arrives once
    job = await world.until(app, started.id)
    assert job.state is JobState.SUCCESS
    keys = [each.key for batch in shelf.batches for each in batch.records]
    assert len(keys) == len(set(keys)) == 30


@with_world
async def test_a_destination_that_takes_too_long_is_the_one_to_blame(world: World) -> None:
    class Slow(Shelf):
        async def write(self, batch: Batch) -> WriteResult:
            await batch.clock.sleep(1000)
            return WriteResult()

    app, started = await delivering(world, Slow(), chunk_s_max=5)

    assert (await world.until(app, started.id, JobState.PAUSED)).provider == "shelf"


@with_world
async def test_a_destination_that_asks_to_wait_puts_the_job_off_in_its_name(world: World) -> None:
    shelf = Shelf()
    shelf.errors = [RateLimited(timedelta(minutes=15))]
    app, started = await delivering(world, shelf)
    await world.clock.sleep(5)

    waiting = await app.jobs.get(started.id)

    assert (waiting.reason, waiting.provider) == (Reason.RATE_LIMITED, "shelf")
    assert (await app.jobs.view(waiting)).message == (
        "Shelf limits how much we may request; going on at 2026-01-01 00:15 UTC."
    )
    assert (await world.until(app, started.id)).state is JobState.SUCCESS


@with_world
async def test_a_destination_that_lets_us_in_no_more_is_to_be_connected_again(world: World) -> None:
    shelf = Shelf()
    shelf.errors = [AuthExpired()]
    app, started = await delivering(world, shelf)

    job = await world.until(app, started.id)
    status = await app.jobs.status(job.id)

    assert (job.state, job.reason) == (JobState.FAILED, Reason.NEEDS_REAUTH)
    assert status.reconnect == Reconnect(provider="shelf", connection_id=None)
    assert not status.retryable
    assert status.message == "Shelf needs you to sign in again. Nothing is lost."
    assert status.poll_after_s is None


# ---- asking for it -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"source": "clock"}, "source", "there are: from watch"),
        ({"destination": "attic"}, "destination", "no sync imports history from watch to attic"),
        ({"user_id": ""}, "user_id", "must not be empty"),
        ({"end_date": FIRST - timedelta(days=1)}, "end_date", "lies before the first day"),
        ({"reprocess": "some"}, "reprocess", "is not one of none, failed, all"),
    ],
)
@with_world
async def test_a_wrong_request_names_the_field_and_starts_nothing(
    world: World, fields: dict[str, Any], field: str, said: str
) -> None:
    app = await world.app(sync())
    for ask in (app.jobs.submit, app.jobs.forecast):
        with pytest.raises(InvalidInput, match=said) as refused:
            await ask(asked(**fields))
        assert refused.value.field == field
    assert await app.jobs.list() == []


@with_world
async def test_a_plan_that_does_not_include_it_starts_nothing(world: World) -> None:
    app = await world.app(sync(), entitlement=paid_history)
    for plan in (None, "free"):
        if plan is not None:
            await app.users.set_plan("ada", plan)
        with pytest.raises(PlanRequired, match="part of the paid plans"):
            await app.jobs.submit(asked())
        with pytest.raises(PlanRequired):
            await app.jobs.forecast(asked())
    assert await app.jobs.list() == []

    # What is not history is for everybody, and a plan that includes it lets it in
    everything = await app.jobs.submit("history", user_id="ada", mode="full")
    await app.jobs.cancel(everything.job.id)
    await app.users.set_plan("ada", "premium")
    assert await app.users.plan_of("ada") == "premium"
    assert (await app.jobs.submit(asked())).created


@pytest.mark.parametrize("plan", ["", "x" * 51, "pre\nmium"])
@with_world
async def test_a_plan_is_a_short_word(world: World, plan: str) -> None:
    app = await world.app(sync())
    with pytest.raises(InvalidInput, match="plan"):
        await app.users.set_plan("ada", plan)


@with_world
async def test_the_user_s_own_connection_is_found(world: World) -> None:
    site = Site(world)
    app = await site.app()
    request = asked(source="strava")

    with pytest.raises(NotConnected, match="has not connected strava yet") as refused:
        await app.jobs.submit(request)
    assert refused.value.provider == "strava"

    connection = await site.connect(app)
    started = await app.jobs.submit(request)
    assert started.job.connection_id == connection.id

    # Another user's is as if it were not there
    theirs = msgspec.structs.replace(request, user_id="eve", connection_id=connection.id)
    with pytest.raises(NotFound):
        await app.jobs.submit(theirs)


@with_world
async def test_nothing_is_started_while_the_user_has_to_sign_in_again(world: World) -> None:
    site = Site(world)
    app = await site.app()
    connection = await site.connect(app)
    assert app._runtime.credentials is not None
    await app._runtime.credentials.store.refuse(
        connection.id, version=1, reason=ConnectionReason.GRANT_REFUSED, error="no"
    )

    with pytest.raises(NotConnected, match="sign in again") as refused:
        await app.jobs.submit(asked(source="strava"))

    assert refused.value.provider == "strava"
    assert await app.jobs.list() == []


# ---- what it will cost, and how it stands ------------------------------------------------------


@with_world
async def test_a_forecast_counts_the_gaps_and_changes_nothing(world: World) -> None:
    source: Any = ScriptedSource(a_day, "watch")
    source.budget = Budget("watch", [Limit(100, per="15min", reserve=20)])
    costs = [DayCost(provider="watch", least=2, most=4)]
    app = await world.app(sync(source, day_costs=costs))

    before = await app.jobs.forecast(asked())
    assert (before.days, before.days_held) == (30, 0)
    assert [(each.least, each.most) for each in before.requests] == [(60, 120)]
    assert [(each.amount, each.left) for each in before.left_for_live] == [(100, 20)]
    assert before.finish is not None and START < before.finish.earliest
    assert before.takes is not None and before.takes.startswith("Takes about ")
    assert await app.jobs.list() == []

    await app.supervisor().start()
    started = await app.jobs.submit(asked(start_date=date(2025, 12, 21)))
    await world.until(app, started.job.id)
    after = await app.jobs.forecast(asked())
    # The day before yesterday was over everywhere; yesterday and the one before are not
    assert after.days + after.days_held == 30
    assert after.days_held == len([d for d in _days(date(2025, 12, 21), LAST) if _settled(d)])

    # What it said holds
    job = await world.until(app, (await app.jobs.submit(asked())).job.id)
    assert job.progress.total == after.days


def _days(first: date, last: date) -> Sequence[date]:
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def _settled(day: date) -> bool:
    return datetime.combine(day, datetime.min.time(), START.tzinfo) + timedelta(days=2) <= START


@with_world
async def test_how_it_stands_is_told_as_it_goes_on(world: World) -> None:
    async def slowly(ctx: Context) -> Chunk:
        await ctx.clock.sleep(10)
        return await a_day(ctx)

    app = await world.app(sync(ScriptedSource(slowly, "watch")))
    started = await app.jobs.submit(asked())
    waiting = await app.jobs.status(started.job.id, user_id="ada")
    assert (waiting.percent, waiting.finish, waiting.poll_after_s) == (0.0, None, POLL_RESTING_S)
    assert waiting.time_left == "No estimate while no worker can do this."

    await app.supervisor().start()
    await world.clock.sleep(10 * 5 + 5)
    running = await app.jobs.status(started.job.id)
    assert running.message == "Syncing data for 2025-12-25…"
    assert running.poll_after_s == POLL_WORKING_S
    # 25 days are left, at ten seconds each
    assert running.finish is not None
    truly = START + timedelta(seconds=300)
    assert running.finish.earliest < truly < running.finish.latest
    assert running.time_left == "About 2 to 6 minutes left."

    done = await world.until(app, started.job.id)
    ended = await app.jobs.status(done.id)
    assert (ended.percent, ended.finish, ended.poll_after_s) == (100.0, None, None)
    assert ended.time_left is None

    with pytest.raises(NotFound):
        await app.jobs.status(done.id, user_id="eve")


@with_world
async def test_a_job_that_should_have_ended_is_late(world: World) -> None:
    async def stuck_at_the_end(ctx: Context) -> Chunk:
        await ctx.clock.sleep(100 if ctx.day == FIRST else 1)
        return await a_day(ctx)

    app = await world.at_work(sync(ScriptedSource(stuck_at_the_end, "watch")))
    started = await app.jobs.submit(asked())
    await world.clock.sleep(90)

    status = await app.jobs.status(started.job.id)

    assert (status.late, status.finish) == (True, None)
    assert status.time_left == "Taking longer than expected."


@with_world
async def test_a_status_stays_the_same_until_something_happens(world: World) -> None:
    app = await world.at_work(sync(ScriptedSource(raising(Transient, "503"), "watch")))
    started = await app.jobs.submit(asked())
    await world.until(app, started.job.id, JobState.PAUSED)

    first = await app.jobs.status(started.job.id)
    await world.clock.sleep(60)

    assert await app.jobs.status(started.job.id) == first
    assert first.error_count == 2
    assert (first.finish, first.time_left) == (None, "No estimate while requests to watch fail.")


# ---- a probe, and what it may say of whom ------------------------------------------------------


@with_world
async def test_a_probe_that_had_nothing_to_deliver_sets_nobody_free(world: World) -> None:
    # Given a destination that is down for three users, whose other days are without records
    shelf = Shelf()
    shelf.errors = [Transient("503")] * 100

    async def read(ctx: Context) -> Chunk:
        return await a_day(ctx) if ctx.day == LAST else Chunk()

    app = await world.at_work(sync(ScriptedSource(read, "watch"), shelf))
    jobs = [
        (await app.jobs.submit(asked(destination="shelf", user_id=user))).job
        for user in ("ada", "bob", "eve")
    ]
    for job in jobs:
        await world.until(app, job.id, JobState.PAUSED)

    # When one of them finds its way past the bad day, and reads days without anything
    first = await app.jobs.get(jobs[0].id)
    probe = msgspec.structs.replace(first, probe=True, state=JobState.RUNNING)
    after, _ = commit_chunk(
        msgspec.structs.replace(probe, cursor="2025-12-29"),
        Chunk(),
        WriteResult(),
        slice_over=False,
    )

    # Then it is still to try, and says nothing of the destination
    assert after.after.probe
    done, _ = commit_chunk(
        msgspec.structs.replace(probe, cursor="2025-12-29"),
        await a_day(_context(LAST)),
        WriteResult(),
        slice_over=False,
    )
    assert not done.after.probe

    # and once the destination is up again, all of them come back
    shelf.errors.clear()
    for job in jobs:
        assert (await world.until(app, job.id)).state is JobState.SUCCESS


@with_world
async def test_others_are_set_free_only_by_a_probe_that_its_destination_answered(
    world: World,
) -> None:
    # Given two users' imports that wait for a destination which is down
    shelf = Shelf()
    shelf.errors = [Transient("503")] * 100
    records = True

    async def read(ctx: Context) -> Chunk:
        return await a_day(ctx) if records else Chunk()

    app = await world.app(sync(ScriptedSource(read, "watch"), shelf))
    freed: list[str] = []
    release = app._runtime.breakers.release_provider

    async def released(provider: str, **more: Any) -> int:
        freed.append(provider)
        return await release(provider, **more)

    app._runtime.breakers.release_provider = released  # type: ignore[method-assign]
    await app.supervisor().start()
    jobs = [
        (await app.jobs.submit(asked(destination="shelf", user_id=user))).job
        for user in ("ada", "bob")
    ]
    for job in jobs:
        await world.until(app, job.id, JobState.PAUSED)

    # When the days that the probes read have nothing to deliver
    records = False
    shelf.errors.clear()
    for job in jobs:
        assert (await world.until(app, job.id)).state is JobState.SUCCESS

    # Then nobody was told that the destination is back: nobody had asked it
    assert freed == []
    assert shelf.batches == []


def _context(day: date) -> Any:
    return types.SimpleNamespace(day=day)


def test_a_probe_that_is_put_off_stays_with_whom_it_is_to_try() -> None:
    job = make_job(
        state=JobState.RUNNING, source="watch", destination="shelf", provider="shelf", probe=True
    )

    put_off = change.defer(
        job, after=timedelta(0), reason=Reason.RATE_LIMITED, note="", provider="watch"
    ).after

    assert (put_off.provider, put_off.probe) == ("shelf", True)
    others = msgspec.structs.replace(job, probe=False)
    elsewhere = change.defer(others, after=timedelta(0), reason=Reason.RATE_LIMITED, note="")
    assert elsewhere.after.provider == "watch"


# ---- what the destination's account has to do with it ------------------------------------------


@with_world
async def test_what_went_to_another_account_is_not_held_for_this_one(world: World) -> None:
    shelf = Shelf()
    app = await world.at_work(sync(destination=shelf))
    for account in ("first", "second", "second"):
        new = check(
            JobRequest(
                sync="history",
                user_id="ada",
                connection_id="ada",
                mode="history",
                start_date=FIRST,
                end_date=date(2025, 12, 10),
            ),
            app._runtime.registry.get("history"),
            job_id=app._runtime.ids.new("job"),
            now=world.clock.now(),
        )
        new = msgspec.structs.replace(new, destination_connection_id=account)
        job = await app._runtime.jobs.submit(await plan_days(app._runtime, new, Reprocess.FAILED))
        await world.until(app, job.job.id)

    # Ten days to the first, ten to the second, and then there is nothing left to do
    assert len(shelf.batches) == 20


@with_world
async def test_a_destination_that_does_not_let_us_in_is_known_before_anything_is_read(
    world: World,
) -> None:
    site = Site(world)
    source = ScriptedSource(a_day, "watch")
    uploads: Any = strava_source()
    uploads.write = Shelf().write
    app = await world.app(sync(source, uploads), transport=site.wire, vault=vault(), worker=None)
    connection = await site.connect(app)
    await app.connections.pause(connection.id)
    started = await app.jobs.submit(asked(destination="strava"))
    await app.supervisor().start()
    await world.clock.sleep(60)

    waiting = await app.jobs.get(started.job.id)

    assert (waiting.reason, waiting.provider) == (Reason.CONNECTION_PAUSED, "strava")
    assert source.calls == []


@with_world
async def test_the_first_day_of_all_can_be_asked_for(world: World) -> None:
    app = await world.app(sync())
    with pytest.raises(InvalidInput, match="the range is longer"):
        await app.jobs.submit(asked(start_date=date.min))
    forecast = await app.jobs.forecast(asked(start_date=date.min, end_date=date(1, 1, 10)))
    assert forecast.days == 10


@with_world
async def test_of_two_ways_from_here_to_there_one_is_named(world: World) -> None:
    source = ScriptedSource(a_day, "watch")
    app = await world.app(Sync(name="one", source=source), Sync(name="two", source=source))
    with pytest.raises(InvalidInput, match="name one of these from watch: one, two"):
        await app.jobs.submit(asked())
    started = await app.jobs.submit(asked(sync="one"))
    assert started.job.sync == "one"
