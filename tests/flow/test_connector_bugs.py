"""Bugs of connectors: they are told as ours, with file and line, and never blame a provider."""

from collections.abc import Awaitable, Callable, Iterator
from datetime import date, timedelta
from io import StringIO

import pytest

from headgate import (
    App,
    Batch,
    Chunk,
    Context,
    Document,
    Item,
    JobState,
    NewItem,
    Reason,
    Record,
    RetryPolicy,
    Sync,
    Transient,
    WriteResult,
)
from headgate.base import log
from headgate.base.clock import SystemClock
from headgate.base.failure import read_failure
from headgate.errors import ConnectorBug, StoreError
from headgate.flow.jobs.view import event_for_user
from headgate.flow.step.connector_bug import PROGRAMMING_ERRORS, classify, log_bug
from headgate.types import Job
from tests.flow.logs import lines, told
from tests.worlds import START, Read, ScriptedSource, World, kinds, with_world

DAY = date(2025, 12, 24)
CANARY = "s3cr3t-c4nary"
OURS = "Something went wrong on our side; we have been notified."


@pytest.fixture
def logged() -> Iterator[StringIO]:
    with told("info") as stream:
        yield stream


def bug_lines(stream: StringIO) -> list[dict[str, str]]:
    return lines(stream, "connector_bug")


async def misspelt(ctx: Context) -> Chunk:
    access_token = CANARY
    found = {"venue": access_token}
    return Chunk(records=[Record("a", {"name": found["vanue"]})])


async def run(world: World, read: Read, *, mode: str = "full") -> tuple[App, Job]:
    app = await world.app(Sync(name="pages", source=ScriptedSource(read)))
    start, end = (DAY - timedelta(days=2), DAY) if mode == "history" else (None, None)
    submitted = await app.jobs.submit(
        "pages", user_id="ada", mode=mode, start_date=start, end_date=end
    )
    await app.supervisor().start()
    return app, submitted.job


@with_world
async def test_a_misspelt_key_is_told_as_ours_with_file_line_and_traceback(
    world: World, logged: StringIO
) -> None:
    app, job = await run(world, misspelt)

    # While it is tried again, nobody hears of busy servers
    await world.clock.sleep(1)
    job = await app.jobs.get(job.id)
    view = await app.jobs.view(job)
    assert (job.state, job.reason) == (JobState.PENDING, Reason.RETRYING)
    assert view.message.startswith(f"{OURS} Trying again at 2026-01-01 00:00:0")
    assert "vanue" not in repr(view.for_user())

    # Operators see what it is and where
    assert view.operator is not None and view.operator.error is not None
    error = view.operator.error
    assert error.kind == "ConnectorBug"
    assert error.message.startswith("KeyError: 'vanue' at tests/flow/test_connector_bugs.py:")
    assert (error.raised_at or "").startswith("tests/flow/test_connector_bugs.py:")
    [event] = [each for each in await app.jobs.events(job.id) if each.kind == "retry"]
    assert "test_connector_bugs.py" in str(event.data)
    assert "vanue" not in str(event_for_user(event).data)

    # And the log has the traceback, at level error, without what was in the variables
    line = bug_lines(logged)[0]
    assert (line["level"], line["job"], line["of"]) == ("error", job.id, "pages")
    assert 'found["vanue"]' in line["exception"]
    assert CANARY not in logged.getvalue()

    # When it never works, the breaker stays shut and the job says so at its end
    job = await world.until(app, job.id)
    assert (job.state, job.reason) == (JobState.FAILED, Reason.ATTEMPTS_SPENT)
    assert job.summary.pauses == 0
    assert job.summary.errors == RetryPolicy().attempts_max
    assert "breaker_opened" not in kinds(await app.jobs.events(job.id))
    view = await app.jobs.view(job)
    assert view.message.startswith(OURS)
    assert view.retryable
    assert app.measurements.connector_bugs["pages"] == RetryPolicy().attempts_max


@with_world
async def test_a_bug_in_fetch_is_counted_too(world: World, logged: StringIO) -> None:
    async def fetch(ctx: Context, item: Item) -> Document:
        documents: dict[str, Document] = {}
        return documents[item.id]

    async def read(ctx: Context) -> Chunk:
        fetched = await ctx.items.fetch_due(ctx, "photos", fetch)
        return Chunk(error=fetched.error)

    app = await world.app(Sync(name="pages", source=ScriptedSource(read)))
    photo = NewItem(
        id="photo 1",
        collection="photos",
        user_id="ada",
        connection_id="ada",
        external_id="1",
        start_time=START,
    )
    await app.items.register([photo])
    await app.jobs.submit("pages", user_id="ada")
    await app.supervisor().start()
    await world.clock.sleep(1)

    assert [line["item"] for line in bug_lines(logged)] == ["photo 1"]
    assert app.measurements.connector_bugs["pages"] == 1


@with_world
async def test_a_bug_on_one_day_costs_that_day_alone(world: World) -> None:
    async def read(ctx: Context) -> Chunk:
        return await misspelt(ctx) if ctx.day == DAY else Chunk(records=[Record("a", {})])

    app, job = await run(world, read, mode="history")
    job = await world.until(app, job.id)

    assert (job.summary.days_held, job.summary.days_failed) == (2, 1)
    assert job.summary.pauses == 0


@with_world
async def test_a_bug_on_all_days_makes_no_gaps_but_fails_the_job(world: World) -> None:
    app, job = await run(world, misspelt, mode="history")
    job = await world.until(app, job.id)

    assert (job.state, job.reason) == (JobState.FAILED, Reason.ATTEMPTS_SPENT)
    assert (job.summary.days_failed, job.summary.pauses) == (0, 0)


@with_world
async def test_a_bug_that_comes_with_records_is_one_too(world: World, logged: StringIO) -> None:
    async def read(ctx: Context) -> Chunk:
        return Chunk(records=[Record("a", {})], cursor=1, error=KeyError("vanue"))

    app, job = await run(world, read)
    await world.until(app, job.id)
    assert bug_lines(logged)[0]["error"] == "KeyError: 'vanue'"


@with_world
async def test_a_probe_with_a_bug_lets_another_be_the_probe(world: World) -> None:
    # Given a provider that was down for two users, and a bug that only one of them meets
    down = True

    async def read(ctx: Context) -> Chunk:
        if down:
            raise Transient("503")
        return await misspelt(ctx) if ctx.user_id == "ada" else Chunk()

    policy = RetryPolicy(errors_max=0, backoff_s=100_000, backoff_s_max=100_000)
    app = await world.app(Sync(name="pages", source=ScriptedSource(read), retry=policy))
    jobs = [(await app.jobs.submit("pages", user_id=user)).job for user in ("ada", "bob")]
    await app.supervisor().start()
    for job in jobs:
        await world.until(app, job.id, JobState.PAUSED)
    down = False

    # Then the other is not kept waiting
    bob = await world.until(app, jobs[1].id)
    assert bob.state is JobState.SUCCESS
    ada = await app.jobs.get(jobs[0].id)
    assert (ada.reason, ada.probe) == (Reason.RETRYING, False)


@pytest.mark.parametrize("kind", PROGRAMMING_ERRORS)
def test_programming_errors_are_bugs_also_in_a_group(kind: type[Exception]) -> None:
    for error in (kind("x"), ExceptionGroup("tasks", [OSError(), kind("x")])):
        bug = classify(error)
        assert type(bug).__name__ == "ConnectorBug"
        assert bug.__cause__ is error


@pytest.mark.parametrize("error", [OSError(), TimeoutError(), EOFError(), Transient()], ids=repr)
def test_errors_of_the_network_are_not(error: Exception) -> None:
    assert classify(error) is error


class Shelf:
    """A destination that writes as it is told."""

    name = "shelf"

    def __init__(self, write: Callable[[Batch], Awaitable[WriteResult]]) -> None:
        self._write = write

    async def write(self, batch: Batch) -> WriteResult:
        return await self._write(batch)


async def not_the_shelf(batch: Batch) -> WriteResult:
    return batch.records[0].data.title  # type: ignore[attr-defined,no-any-return]


async def refused_by_the_store(batch: Batch) -> WriteResult:
    raise StoreError("the database refused")


@pytest.mark.parametrize("write", [not_the_shelf, refused_by_the_store])
@with_world
async def test_neither_a_bug_nor_an_error_of_the_store_in_write_is_the_destinations_fault(
    world: World, logged: StringIO, write: Callable[[Batch], Awaitable[WriteResult]]
) -> None:
    async def read(ctx: Context) -> Chunk:
        return Chunk(records=[Record("a", {})])

    sync = Sync(name="pages", source=ScriptedSource(read), destination=Shelf(write))
    app = await world.at_work(sync)
    job = (await app.jobs.submit("pages", user_id="ada")).job
    job = await world.until(app, job.id)

    assert (job.reason, job.summary.pauses) == (Reason.ATTEMPTS_SPENT, 0)
    if write is refused_by_the_store:
        assert job.provider != "shelf"
    else:
        assert read_failure(job.error or "").kind == "ConnectorBug"
        assert "batch.records[0].data.title" in bug_lines(logged)[0]["exception"]


def test_the_log_for_people_shows_the_traceback_without_local_variables() -> None:
    stream = StringIO()
    log.configure(SystemClock(), json=False, level="info", stream=stream)
    try:
        access_token = CANARY
        raise KeyError(len(access_token))
    except KeyError as error:
        bug = classify(error)
        assert isinstance(bug, ConnectorBug)
        log_bug(bug, of="pages", job="job_1")
    finally:
        log.configure(SystemClock(), json=True, level="critical", stream=StringIO())
    assert "raise KeyError(len(access_token))" in stream.getvalue()
    assert CANARY not in stream.getvalue()
