"""How far a job over items is: the items in each state, and what is left of them."""

from datetime import timedelta

from msgspec.structs import replace

from headgate import Sync
from headgate.base.errors import Malformed, NoData
from headgate.flow.items.fetch import JobItems
from headgate.flow.items.progress import with_present_progress
from headgate.model.job import Lane, Progress
from headgate.model.states import ItemState, JobState
from tests.flow.test_items import CONNECTION, STREAMS, Place, Provider, with_place
from tests.flow.test_lanes import busy, count_statements
from tests.unit.values import make_job
from tests.worlds import World, with_world


@with_place
async def test_a_job_is_shown_with_the_items_as_they_are_now(place: Place) -> None:
    # Given a job whose last chunk found three items, and somebody who has fetched since
    await place.register("a", "b", "c")
    job = make_job(connection_id=CONNECTION, progress=await place.work.progress(STREAMS))
    await place.work.fetch_due(place.ctx, STREAMS, Provider(c=NoData()).fetch, limit=3)
    await place.register("d")

    [shown] = await with_present_progress(place.items, [job])

    assert (job.progress.done, job.progress.total) == (0, 3)
    assert (shown.progress.done, shown.progress.total) == (3, 4)
    assert shown.progress.items == {
        ItemState.SUCCESS: 2,
        ItemState.UNAVAILABLE: 1,
        ItemState.PENDING: 1,
    }


@with_place
async def test_other_jobs_are_shown_as_they_were_stored(place: Place) -> None:
    await place.register("a", "b")
    counted = await place.work.progress(STREAMS)
    job = make_job(connection_id=CONNECTION, progress=counted)
    await place.register("c")

    stored = [
        # One that has ended, one that is still listing, and one that fetches no items.
        replace(job, state=JobState.SUCCESS),
        replace(job, progress=replace(counted, total=None)),
        replace(job, progress=Progress(done=4, total=9)),
    ]
    assert await with_present_progress(place.items, stored) == stored


@with_world
async def test_many_jobs_are_shown_by_as_many_reads_as_one(world: World) -> None:
    app = await world.app(Sync(name="notes", source=busy(0)))
    progress = Progress(done=0, total=1, collection=STREAMS)
    jobs = [
        make_job(id=f"job_{n}", connection_id=f"connection_{n}", progress=progress)
        for n in range(5)
    ]
    counted = count_statements(app)
    await app.jobs.views(jobs[:1])
    of_one = counted.total()

    views = await app.jobs.views(jobs)

    assert counted.total() == 2 * of_one
    assert [view.progress.total for view in views] == [0] * 5


@with_place
async def test_a_job_counts_what_came_since_it_was_submitted(place: Place) -> None:
    # Given an item that was fetched, one that has failed for good, and one that waits
    await place.register("a", "b", lane=Lane.HOT)
    await place.work.fetch_due(place.ctx, STREAMS, Provider(b=Malformed()).fetch)
    for _ in range(2):
        await place.clock.sleep(600)
        await place.work.fetch_due(place.ctx, STREAMS, Provider(b=Malformed()).fetch)
    assert (await place.items.get("b")).stuck
    await place.register("c", lane=Lane.HOT)
    await place.register("cold")
    now = place.clock.now() + timedelta(seconds=1)
    job = make_job(user_id="ada", connection_id=CONNECTION, created_at=now)
    work = JobItems(place.fetching, job)
    await place.clock.sleep(2)

    async def progress(*collections: str) -> Progress:
        return await work.progress(*collections, lane=Lane.HOT, of_job=True)

    # Then a job counts the last alone, until and after it is fetched
    assert await progress(STREAMS) == Progress(done=0, total=1, items={ItemState.PENDING: 1})
    await work.fetch_due(place.ctx, STREAMS, Provider().fetch, lane=Lane.HOT)
    fetched = Progress(done=1, total=1, items={ItemState.SUCCESS: 1})
    assert await progress(STREAMS, "another") == fetched
    assert await progress("another") == Progress(done=0, total=0)
    # And what has failed for good is done, where everything counts
    whole = await work.progress(STREAMS, lane=Lane.HOT)
    assert (whole.done, whole.total, whole.collection) == (3, 3, STREAMS)
