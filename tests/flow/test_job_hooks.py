"""A sync is told when one of its jobs starts and how it ended, by whoever ends it."""

from headgate import App, Chunk, Context, JobState, Reason, RetryPolicy, Sync, Terminal, Transient
from headgate.flow.jobs.hooks import call_on_end, call_on_start
from headgate.flow.registry import Registry
from headgate.types import Job
from tests.flow.logs import lines, told
from tests.flow.sources import nothing, raising, taking
from tests.unit.values import make_job
from tests.worlds import Read, ScriptedSource, World, with_dying_workers, with_world


class Diary:
    """What a sync was told."""

    def __init__(self, read: Read, retry: RetryPolicy | None = None) -> None:
        self.started: list[str] = []
        self.ended: list[Job] = []
        self.sync = Sync(
            name="pages",
            source=ScriptedSource(read),
            retry=retry or RetryPolicy(),
            on_start=lambda job: self.started.append(job.id),
            on_end=self.ended.append,
        )


async def submit(app: App) -> str:
    return (await app.jobs.submit("pages", user_id="ada")).job.id


@with_world
async def test_a_job_that_fails_once_and_takes_two_chunks_starts_once_and_ends_once(
    world: World,
) -> None:
    async def read(ctx: Context) -> Chunk:
        if world.clock.monotonic() < 3:
            raise Transient("not yet")
        return Chunk(cursor="p2" if ctx.cursor is None else None)

    diary = Diary(read)
    app = await world.app(diary.sync)
    job_id = await submit(app)
    await app.supervisor().start()
    job = await world.until(app, job_id)

    assert job.summary.errors == 1
    assert diary.started == [job_id]
    assert diary.ended == [job]


@with_world
async def test_a_job_that_cannot_succeed_ends_with_its_reason(world: World) -> None:
    diary = Diary(raising(Terminal, "never"))
    app = await world.app(diary.sync)
    job_id = await submit(app)
    await app.supervisor().start()
    await world.until(app, job_id)

    [ended] = diary.ended
    assert (ended.state, ended.reason) == (JobState.FAILED, Reason.REFUSED)


@with_world
async def test_a_job_that_is_cancelled_before_it_starts_only_ends(world: World) -> None:
    async def read(ctx: Context) -> Chunk:
        raise AssertionError("nobody works here")

    diary = Diary(read)
    app = await world.app(diary.sync)
    job_id = await submit(app)
    await app.jobs.pause(job_id)
    assert diary.ended == []

    await app.jobs.cancel(job_id)

    assert diary.started == []
    assert [job.state for job in diary.ended] == [JobState.CANCELLED]


@with_dying_workers
async def test_a_job_that_crashes_every_worker_is_ended_by_the_rescuer(world: World) -> None:
    # Given a worker that dies on the job, which may cost only one
    diary = Diary(taking(30), RetryPolicy(crashes_max=1))
    first, second = await world.app(diary.sync), await world.app(diary.sync)
    job_id = await submit(first)
    host = world.loop.host("first")
    await host.spawn(first.supervisor().start())
    await world.clock.sleep(5)
    host.crash()

    # When another one sweeps
    await second.supervisor().start()
    job = await world.until(second, job_id)

    assert job.reason is Reason.CRASHES_SPENT
    assert diary.started == [job_id]
    assert diary.ended == [job]


@with_world
async def test_a_sync_that_fails_to_listen_does_not_fail_its_job(world: World) -> None:
    def broken(job: Job) -> None:
        raise ValueError("it does not listen")

    source = ScriptedSource(nothing)
    app = await world.app(Sync(name="pages", source=source, on_start=broken, on_end=broken))
    job_id = await submit(app)
    with told("error") as stream:
        await app.supervisor().start()
        assert (await world.until(app, job_id)).state is JobState.SUCCESS

    logged = lines(stream)
    assert [line["event"] for line in logged] == ["job_hook_failed"] * 2
    assert "it does not listen" in logged[0]["error"]


def test_a_job_of_another_application_is_nobodys_here() -> None:
    nobody = Registry([])

    call_on_start(nobody, make_job())
    call_on_end(nobody, make_job(state=JobState.FAILED))
