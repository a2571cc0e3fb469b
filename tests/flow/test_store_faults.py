"""A database whose disk is full: the job waits and says why, and nothing counts against it.

The same on a real full disk, and with other faults below SQLite, is in `tests/faults/test_disk.py`.
"""

from datetime import timedelta

from headgate import App, Chunk, Context, JobState, Reason, Record, Sync
from headgate.base.errors import FaultKind, StoreFault
from headgate.flow.leases.claims import ActiveClaims
from headgate.flow.leases.recover import leased_work
from headgate.store.sql.engine.database import FAULT_S
from headgate.store.sql.jobs.store import SqlJobs
from tests.stores import raises_fault
from tests.worlds import ScriptedSource, World, with_world

LARGE = {"text": "x" * 500_000}


async def limit_pages(app: App, more: int) -> None:
    """Let the file grow by so many pages at most."""
    pages = await app.read(lambda tx: tx.exec_driver_sql("PRAGMA page_count").scalar_one())
    most = f"PRAGMA max_page_count = {pages + more}"
    await app.write(lambda tx: tx.exec_driver_sql(most).all())


async def read_much(ctx: Context) -> Chunk:
    return Chunk(records=[Record("a", LARGE)])


@with_world
async def test_a_chunk_that_does_not_fit_waits_without_a_count_until_it_does(world: World) -> None:
    # Given a file that can take small writes, but not the chunk
    source = ScriptedSource(read_much)
    app = await world.app(Sync(name="pages", source=source))
    await limit_pages(app, 50)
    job = (await app.jobs.submit("pages", user_id="ada")).job
    await app.supervisor().start()

    # Then it waits for hours, ever longer, and says why
    await world.clock.sleep(2 * 3600)
    job = await world.until(app, job.id, JobState.PENDING)
    assert job.reason is Reason.DISK_FULL
    assert (job.attempts, job.crashes, job.pauses, job.summary.errors) == (0, 0, 0, 0)
    assert len(source.calls) < 2 * 3600 / 110
    message = (await app.jobs.view(job)).message
    assert message.startswith("Our disk is full, so nothing can be stored; trying again at ")
    with raises_fault(FaultKind.DISK_FULL):
        await app.ping()

    # When there is room, it ends by itself, and soon all is well
    await limit_pages(app, 100_000)
    job = await world.until(app, job.id, limit_s=300)
    assert (job.state, job.summary.crashes) == (JobState.SUCCESS, 0)
    await world.clock.sleep(FAULT_S)
    await app.ping()


@with_world
async def test_a_worker_that_is_lost_while_the_disk_is_full_counts_no_crash(world: World) -> None:
    # Given a claim that could not be extended, because nothing could be written
    app = await world.app(Sync(name="pages", source=ScriptedSource(read_much)))
    job = (await app.jobs.submit("pages", user_id="ada")).job
    rt = app._runtime
    await rt.jobs.claim(job.lane, worker="lost", limit=1, lease=timedelta(seconds=60))
    await world.clock.sleep(61)
    assert isinstance(rt.jobs, SqlJobs)
    rt.jobs.database.note_fault(StoreFault(FaultKind.DISK_FULL, "no space is left"))

    # Then people are told of the disk, and the rescuer counts nothing
    view = await app.jobs.view(await app.jobs.get(job.id))
    assert view.message == (
        "The disk of the database is full. It goes on once that is repaired. "
        "What was imported so far is safe, and we have been notified."
    )
    assert view.operator is not None
    assert view.operator.waits_for == "StoreFault: no space is left"
    for work in leased_work(rt, ActiveClaims(rt.jobs, world.clock)):
        await work.sweep()
    job = await app.jobs.get(job.id)
    assert (job.reason, job.crashes, job.summary.crashes) == (Reason.RESCUED, 0, 0)
