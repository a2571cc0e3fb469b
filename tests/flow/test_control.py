"""What people do to jobs: pause, resume, cancel, retry now, also in races."""

import asyncio
from pathlib import Path

import pytest

from headgate import (
    App,
    AuthExpired,
    Chunk,
    Conflict,
    Context,
    JobState,
    NotFound,
    Reason,
    Sync,
    Transient,
)
from headgate.errors import IllegalTransition, JobCancelled
from headgate.model.states import JOB
from headgate.types import Job
from tests.flow.sources import raising
from tests.profiles import seeds
from tests.worlds import ScriptedSource, World, in_world, kinds, lanes, with_world

SEEDS = seeds(25, first=4)


def pages(count: int, seconds: float = 10.0) -> ScriptedSource:
    """A source of so many pages, each of which takes so long."""

    async def read(ctx: Context) -> Chunk:
        await ctx.clock.sleep(seconds)
        page = ctx.cursor if isinstance(ctx.cursor, int) else 0
        return Chunk(cursor=page + 1 if page + 1 < count else None)

    return ScriptedSource(read)


async def submit(app: App) -> Job:
    return (await app.jobs.submit("pages", user_id="ada")).job


@with_world
async def test_a_running_job_pauses_at_its_next_checkpoint_and_resumes_there(world: World) -> None:
    source = pages(4)
    app = await world.at_work(Sync(name="pages", source=source))
    job = await submit(app)
    await world.clock.sleep(12)

    # When it is paused in the middle of its second page
    asked = await app.jobs.pause(job.id)
    assert (asked.state, asked.pause_requested) == (JobState.RUNNING, True)
    assert "will pause at its next checkpoint" in (await app.jobs.view(asked)).message

    # Then that page is still committed, and no further one is read
    job = await world.until(app, job.id, JobState.PAUSED)
    assert (job.steps, job.cursor, job.reason) == (2, 2, Reason.OPERATOR)
    await world.clock.sleep(10_000)
    assert len(source.calls) == 2

    # And it goes on from there when it is resumed
    await app.jobs.resume(job.id)
    job = await world.until(app, job.id)
    assert job.state is JobState.SUCCESS
    assert len(source.calls) == 4


@with_world
async def test_a_pause_can_be_taken_back_before_it_takes_effect(world: World) -> None:
    app = await world.at_work(Sync(name="pages", source=pages(3)))
    job = await submit(app)
    await world.clock.sleep(12)
    await app.jobs.pause(job.id)
    resumed = await app.jobs.resume(job.id)
    assert (resumed.state, resumed.pause_requested) == (JobState.RUNNING, False)
    assert (await world.until(app, job.id)).state is JobState.SUCCESS


@with_world
async def test_a_pending_job_pauses_at_once_and_twice_is_the_same(world: World) -> None:
    app = await world.app(Sync(name="pages", source=pages(1)))
    job = await submit(app)
    first, second = await app.jobs.pause(job.id), await app.jobs.pause(job.id)
    assert first == second
    assert (first.state, first.wake_at) == (JobState.PAUSED, None)
    await app.supervisor().start()
    await world.clock.sleep(10_000)
    assert (await app.jobs.get(job.id)).state is JobState.PAUSED


@with_world
async def test_an_operator_can_keep_a_breaker_from_closing(world: World) -> None:
    source = ScriptedSource(raising(Transient, "down"))
    app = await world.at_work(Sync(name="pages", source=source))
    job = await submit(app)
    await world.until(app, job.id, JobState.PAUSED)
    await app.jobs.pause(job.id)
    await world.clock.sleep(10_000)
    job = await app.jobs.get(job.id)
    assert (job.state, job.reason) == (JobState.PAUSED, Reason.OPERATOR)
    assert len(source.calls) == 6


@with_world
async def test_a_running_job_is_cancelled_as_soon_as_its_worker_lets_go(world: World) -> None:
    app = await world.at_work(Sync(name="pages", source=pages(4, seconds=60)))
    job = await submit(app)
    await world.clock.sleep(61)

    asked = await app.jobs.cancel(job.id)
    assert asked.state is JobState.CANCELLING
    again = await app.jobs.cancel(job.id)
    assert again.state in (JobState.CANCELLING, JobState.CANCELLED)

    job = await world.until(app, job.id, limit_s=1)
    assert (job.state, job.reason) == (JobState.CANCELLED, Reason.CANCELLED)
    assert job.steps == 1
    assert job.finished_at is not None
    assert kinds(await app.jobs.events(job.id))[-2:] == ["cancel_asked", "cancelled"]


@with_world
async def test_a_worker_that_does_not_let_go_is_shut_out_at_the_deadline(world: World) -> None:
    # Given a source that swallows its cancellation
    finished = asyncio.Event()

    async def read(ctx: Context) -> Chunk:
        try:
            await ctx.clock.sleep(10)
        except asyncio.CancelledError:
            await ctx.clock.sleep(90)
        finished.set()
        return Chunk()

    app = await world.at_work(Sync(name="pages", source=ScriptedSource(read), chunk_s_max=1000))
    job = await submit(app)
    await world.clock.sleep(1)
    began = world.clock.monotonic()
    await app.jobs.cancel(job.id)

    # When the deadline passes
    job = await world.until(app, job.id)

    # Then the cancel has taken effect without the worker, whose result is refused
    assert (job.state, job.reason) == (JobState.CANCELLED, Reason.CANCEL_DEADLINE)
    assert 30 <= world.clock.monotonic() - began <= 80
    await finished.wait()
    await world.clock.sleep(1)
    assert await app.jobs.get(job.id) == job


@with_world
async def test_pending_and_paused_jobs_are_cancelled_at_once(world: World) -> None:
    app = await world.app(Sync(name="pages", source=pages(1)))
    first = await submit(app)
    assert (await app.jobs.cancel(first.id)).state is JobState.CANCELLED
    second = await submit(app)
    await app.jobs.pause(second.id)
    assert (await app.jobs.cancel(second.id)).state is JobState.CANCELLED

    # And what is cancelled is started anew, not again
    for action in (app.jobs.pause, app.jobs.resume, app.jobs.retry_now):
        with pytest.raises(JobCancelled, match=r"is cancelled and cannot .* start a new job"):
            await action(second.id)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.fault(35)
def test_cancel_racing_completion_ends_in_one_state(tmp_path: Path, seed: int) -> None:
    async def main(world: World) -> None:
        app = await world.app(Sync(name="pages", source=pages(2, seconds=0)))
        job = await submit(app)
        await app.supervisor().start()
        try:
            await app.jobs.cancel(job.id)
        except IllegalTransition:
            pass
        job = await world.until(app, job.id)
        assert job.state in (JobState.SUCCESS, JobState.CANCELLED)
        endings = [
            kind
            for kind in kinds(await app.jobs.events(job.id))
            if kind in ("succeeded", "cancelled")
        ]
        assert len(endings) == 1

    in_world(tmp_path, main, seed=seed)


@with_world
async def test_a_failed_job_is_brought_back_by_retry_now(world: World) -> None:
    connected = False

    async def read(ctx: Context) -> Chunk:
        if not connected:
            raise AuthExpired("401")
        return Chunk()

    app = await world.at_work(Sync(name="pages", source=ScriptedSource(read)))
    job = await submit(app)
    job = await world.until(app, job.id)
    assert job.state is JobState.FAILED

    connected = True
    job = await app.jobs.retry_now(job.id)
    assert (job.state, job.reason, job.finished_at) == (JobState.PENDING, Reason.RETRY_NOW, None)
    assert (await world.until(app, job.id)).state is JobState.SUCCESS


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.fault(35)
def test_retry_now_racing_the_automatic_thaw_starts_the_job_once(tmp_path: Path, seed: int) -> None:
    async def main(world: World) -> None:
        # Given a paused job at the very moment its cool-down ends
        down = True
        reads = 0

        async def read(ctx: Context) -> Chunk:
            nonlocal reads
            reads += 1
            if down:
                raise Transient("down")
            return Chunk()

        app = await world.app(Sync(name="pages", source=ScriptedSource(read)))
        job = await submit(app)
        await app.supervisor().start()
        job = await world.until(app, job.id, JobState.PAUSED)
        down = False
        reads = 0
        assert job.wake_at is not None
        await world.clock.sleep((job.wake_at - world.clock.now()).total_seconds())

        # When three people tap retry at once
        await asyncio.gather(
            *(app.jobs.retry_now(job.id) for _ in range(3)), return_exceptions=True
        )
        job = await world.until(app, job.id)

        # Then it started once
        assert job.state is JobState.SUCCESS
        assert reads == 1
        started = [
            kind for kind in kinds(await app.jobs.events(job.id)) if kind in ("retry_now", "thawed")
        ]
        assert len(started) == 1

    in_world(tmp_path, main, seed=seed)


@with_world
async def test_what_a_state_does_not_allow_is_refused_by_name(world: World) -> None:
    app = await world.at_work(Sync(name="pages", source=pages(1, seconds=0)))
    job = await submit(app)
    job = await world.until(app, job.id)
    for action in (app.jobs.pause, app.jobs.resume, app.jobs.retry_now, app.jobs.cancel):
        with pytest.raises(IllegalTransition, match=f"job {job.id} is success and cannot"):
            await action(job.id)
    assert (await app.jobs.get(job.id)) == job


@with_world
async def test_a_job_that_waits_for_its_turn_has_nothing_to_resume(world: World) -> None:
    app = await world.app(Sync(name="pages", source=pages(1)))
    job = await submit(app)

    assert await app.jobs.resume(job.id) == job
    assert await app.jobs.get(job.id) == job


@with_world
async def test_a_job_that_never_holds_still_is_a_conflict_in_the_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a job that others change between every look and the write after it
    app = await world.app(Sync(name="pages", source=pages(1)))
    job = await submit(app)
    tries = 0

    async def lose(*_: object) -> None:
        nonlocal tries
        tries += 1

    monkeypatch.setattr(app._runtime.jobs, "settle", lose)

    # When somebody pauses it
    with pytest.raises(Conflict, match="keeps changing"):
        await app.jobs.pause(job.id)

    # Then that was tried a few times, and the job is as it was
    assert tries == 10
    assert await app.jobs.get(job.id) == job


@pytest.mark.security(3)
@with_world
async def test_another_users_job_is_not_found(world: World) -> None:
    app = await world.app(Sync(name="pages", source=pages(1)))
    job = await submit(app)
    for action in (
        app.jobs.get,
        app.jobs.pause,
        app.jobs.resume,
        app.jobs.retry_now,
        app.jobs.cancel,
    ):
        with pytest.raises(NotFound) as theirs:
            await action(job.id, user_id="eve")
        with pytest.raises(NotFound) as nobodys:
            await action("job_x", user_id="eve")
        assert str(theirs.value).replace(job.id, "job_x") == str(nobodys.value)
    assert (await app.jobs.get(job.id, user_id="ada")).state is JobState.PENDING


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.fault(35)
def test_any_mixture_of_commands_leaves_a_legal_story(tmp_path: Path, seed: int) -> None:
    async def main(world: World) -> None:
        # Given a job that runs while people do everything to it at once
        app = await world.app(
            Sync(name="pages", source=pages(6, seconds=1)), worker=lanes(slice_s=2)
        )
        job = await submit(app)
        await app.supervisor().start()
        draw = world.loop.random("people")
        commands = [
            app.jobs.pause,
            app.jobs.resume,
            app.jobs.retry_now,
            app.jobs.resume,
            app.jobs.pause,
            app.jobs.resume,
        ]

        async def person() -> None:
            for _ in range(6):
                await world.clock.sleep(draw.uniform(0, 3))
                command = draw.choice(commands)
                try:
                    await command(job.id)
                except IllegalTransition:
                    return

        await asyncio.gather(person(), person(), person())
        if (await app.jobs.get(job.id)).state not in JOB.terminal:
            await app.jobs.resume(job.id)

        # Then it ends, each page committed once
        job = await world.until(app, job.id)
        assert job.state is JobState.SUCCESS
        assert job.steps == 6
        assert job.summary.chunks == 6

    in_world(tmp_path, main, seed=seed)
