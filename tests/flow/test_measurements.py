"""What a worker measures while it works: each thing once, by the clock that it is given."""

from datetime import timedelta

from headgate import (
    App,
    Chunk,
    Context,
    JobState,
    Malformed,
    RateLimited,
    Record,
    RetryPolicy,
    Sync,
    Transient,
)
from headgate.flow.items.fetch import reset_item
from headgate.flow.measurements import BUCKETS_S, ChunkOutcome, Measurements
from headgate.flow.registry import Collection
from headgate.model.item import Document, Item
from headgate.model.job import Job
from headgate.model.states import DELIVERY, ITEM, JOB
from headgate.ports.items import NewItem
from tests.worlds import START, ScriptedSource, World, with_world

PAGES = Collection(name="shelf.pages", title="Pages")


def measured(app: App) -> Measurements:
    return app.measurements


def chunks(app: App, sync: str = "books") -> dict[str, int]:
    """How many chunks came to what, without those of which there were none."""
    counted = {
        outcome.value: sum(measured(app).chunks[sync, outcome].counts) for outcome in ChunkOutcome
    }
    return {outcome: count for outcome, count in counted.items() if count}


async def submit(app: App) -> Job:
    return (await app.jobs.submit("books", user_id="ada")).job


def page(name: str, *, days: int = 0) -> NewItem:
    """A page that is to be fetched, so many days after the first."""
    return NewItem(
        id=name,
        collection=PAGES.name,
        user_id="ada",
        connection_id="ada",
        external_id=name,
        start_time=START + timedelta(days=days),
    )


async def slowly(ctx: Context) -> Chunk:
    await ctx.clock.sleep(3)
    return Chunk(records=[Record("one", {})])


@with_world
async def test_a_chunk_is_measured_by_the_clock_that_was_given(world: World) -> None:
    app = await world.at_work(Sync(name="books", source=ScriptedSource(slowly)))
    job = await submit(app)
    await world.until(app, job.id)

    durations = measured(app).chunks["books", ChunkOutcome.OK]
    assert (durations.sum_s, chunks(app)) == (3.0, {"ok": 1})
    assert durations.counts[BUCKETS_S.index(5.0)] == 1


@with_world
async def test_failures_are_told_from_deferrals_and_retries_from_breakers(world: World) -> None:
    # Given a provider that puts off, then fails until the breaker opens, and then answers
    trouble = [RateLimited(timedelta(seconds=9)), *[Transient("503")] * 3]

    async def read(ctx: Context) -> Chunk:
        if trouble:
            raise trouble.pop(0)
        return Chunk()

    app = await world.at_work(
        Sync(name="books", source=ScriptedSource(read), retry=RetryPolicy(errors_max=2))
    )
    job = await submit(app)

    # When it has come to its end
    assert (await world.until(app, job.id)).state is JobState.SUCCESS

    # Then each is counted as what it was
    assert chunks(app) == {"deferred": 1, "failed": 3, "ok": 1}
    assert measured(app).job_retries["books"] == 2
    assert measured(app).breaker_openings["scripted"] == 1
    totals = measured(app).totals()
    assert (totals["chunks"], totals["deferred"], totals["failed"]) == (1, 1, 3)


@with_world
async def test_a_chunk_that_was_cut_short_came_to_what_cut_it(world: World) -> None:
    errors: list[Exception] = [Transient("503 on the second page")]

    async def read(ctx: Context) -> Chunk:
        if errors:
            return Chunk(records=[Record("one", {})], cursor="two", error=errors.pop())
        return Chunk()

    app = await world.at_work(Sync(name="books", source=ScriptedSource(read)))
    job = await submit(app)
    await world.until(app, job.id)

    assert chunks(app) == {"failed": 1, "ok": 1}
    assert measured(app).job_retries["books"] == 1


@with_world
async def test_a_failure_that_meets_a_cancel_is_not_counted_as_tried_again(world: World) -> None:
    async def read(ctx: Context) -> Chunk:
        # Not yet told: it reads on until its next heartbeat.
        await app.jobs.cancel(ctx.job_id)
        raise Transient("503")

    app = await world.at_work(Sync(name="books", source=ScriptedSource(read)))
    job = await submit(app)

    assert (await world.until(app, job.id)).state is JobState.CANCELLED
    assert measured(app).job_retries["books"] == 0


@with_world
async def test_a_zombie_counts_its_lost_claim_once_and_its_rescuer_the_rescue(world: World) -> None:
    # Given a worker that stands still in the middle of a chunk
    sync = Sync(name="books", source=ScriptedSource(slowly))
    first, second = await world.app(sync), await world.app(sync)
    job = await submit(first)
    host = world.loop.host("zombie")
    await host.spawn(first.supervisor().start())
    await world.clock.sleep(1)
    host.pause()

    # When another has done its job and it goes on
    await second.supervisor().start()
    await world.until(second, job.id)
    host.resume()
    await world.clock.sleep(100)

    # Then both have told what they saw
    assert (chunks(first), chunks(second)) == ({"lost": 1}, {"ok": 1})
    assert dict(measured(first).lost_claims) == {JOB.name: 1, ITEM.name: 0, DELIVERY.name: 0}
    assert dict(measured(second).lost_claims) == {JOB.name: 0, ITEM.name: 0, DELIVERY.name: 0}
    assert dict(measured(second).rescues) == {JOB.name: 1, ITEM.name: 0, DELIVERY.name: 0}


@with_world
async def test_items_that_are_tried_again_or_lost_are_counted(world: World) -> None:
    # Given a page that can never be read, and one that an operator resets meanwhile
    resets = 1

    async def fetch(ctx: Context, item: Item) -> Document:
        nonlocal resets
        if item.id == "torn":
            raise Malformed("no page")
        if resets:
            resets -= 1
            await reset_item(app.items._store, item.id)
        return Document.of_json({})

    async def read(ctx: Context) -> Chunk:
        fetched = await ctx.items.fetch_due(ctx, PAGES.name, fetch)
        return Chunk.of_items(fetched, cursor="fetching")

    app = await world.app(Sync(name="books", source=ScriptedSource(read), collections=[PAGES]))
    await app.items.register([page("torn"), page("whole")])
    job = await submit(app)
    await app.supervisor().start()
    await world.until(app, job.id)

    # Then the last failure, after which nothing follows, is no retry
    failures = PAGES.retry.failures_max
    assert measured(app).item_retries[PAGES.name] == failures - 1
    assert (measured(app).totals()["items"], measured(app).totals()["failed"]) == (1, failures)
    assert measured(app).lost_claims[ITEM.name] == 1


@with_world
async def test_an_item_that_is_another_s_when_it_is_given_back_counts_as_lost(world: World) -> None:
    # Given a batch of two that ends with the first, while the second is reset
    async def fetch(ctx: Context, item: Item) -> Document:
        await reset_item(app.items._store, "second")
        raise RateLimited(timedelta(minutes=1))

    async def read(ctx: Context) -> Chunk:
        await ctx.items.fetch_due(ctx, PAGES.name, fetch)
        raise AssertionError("unreachable")

    app = await world.app(Sync(name="books", source=ScriptedSource(read), collections=[PAGES]))
    await app.items.register([page("first"), page("second", days=1)])
    job = await submit(app)
    await app.supervisor().start()
    await world.clock.sleep(1)

    assert (await app.jobs.get(job.id)).state is JobState.PENDING
    assert chunks(app) == {"deferred": 1}
    assert measured(app).lost_claims[ITEM.name] == 1
    assert measured(app).item_retries[PAGES.name] == 0


@with_world
async def test_items_that_are_taken_from_a_lost_worker_are_counted_as_rescued(world: World) -> None:
    app = await world.app(Sync(name="books", source=ScriptedSource(slowly), collections=[PAGES]))
    await app.items.register([page("page")])
    lease = timedelta(seconds=60)
    await app.items._store.claim(PAGES.name, "ada", limit=1, lease=lease, worker="dead")
    await app.supervisor().start()
    await world.clock.sleep(62)

    assert dict(measured(app).rescues) == {JOB.name: 0, ITEM.name: 1, DELIVERY.name: 0}
