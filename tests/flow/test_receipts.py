"""Two syncs that find the same records: each record is delivered once, whoever finds it first."""

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from headgate import (
    App,
    Batch,
    Chunk,
    Context,
    DayStatus,
    JobRequest,
    JobState,
    Mode,
    RateLimited,
    Reason,
    ReceiptState,
    Record,
    Refusal,
    Sync,
    Transient,
    WriteResult,
)
from headgate.flow.step.receipts import CLAIMED_WAIT
from headgate.types import Job
from tests.profiles import seeds
from tests.worlds import (
    START,
    ScriptedSource,
    World,
    in_world,
    kinds,
    with_dying_workers,
    with_world,
)

DAY = date(2025, 12, 30)
KEYS = ("a", "b")


class Printer:
    """A destination that makes a new page of every record, however often it comes."""

    name, title = "printer", "Printer"

    def __init__(self, world: World) -> None:
        self._clock = world.clock
        #: The pages, by the sync that sent them.
        self.printed: list[tuple[str, str]] = []
        self.refuses: set[str] = set()
        self.errors: list[Exception] = []
        #: How long it takes over a batch.
        self.takes_s = 0.0

    async def write(self, batch: Batch) -> WriteResult:
        if self.errors:
            raise self.errors.pop(0)
        await self._clock.sleep(self.takes_s)
        refused = [each for each in batch.records if each.key in self.refuses]
        taken = [each for each in batch.records if each.key not in self.refuses]
        self.printed += [(batch.sync, each.key) for each in taken]
        return WriteResult(
            receipts=[Record(each.key, {"page": len(self.printed)}) for each in taken],
            refused=[Refusal(each.key, "no paper") for each in refused],
        )


class Desk:
    """A printer, with a backfill and a live sync that read the same records."""

    def __init__(self, world: World, **fields: Any) -> None:
        self.world = world
        self.printer = Printer(world)
        #: What the source has, and what each read was told of it.
        self.keys: tuple[str, ...] = KEYS
        self.receipts: list[Mapping[str, ReceiptState]] = []
        self.asks = True
        common: dict[str, Any] = {
            "destination": self.printer,
            "delivers_once": True,
            "chunk_s_max": 3600.0,
            **fields,
        }
        source = ScriptedSource(self._read, "notes")
        self.syncs = (
            Sync(name="history", source=source, modes=[Mode.HISTORY], **common),
            Sync(name="live", source=source, modes=[Mode.FULL], stored_as="history", **common),
        )

    async def _read(self, ctx: Context) -> Chunk:
        known = await ctx.receipts(self.keys) if self.asks else {}
        self.receipts.append(known)
        taken = [key for key in self.keys if known.get(key) is ReceiptState.TAKEN]
        found = [Record(key, {}) for key in self.keys if key not in taken]
        return Chunk(records=found, delivered_before=len(taken))

    async def app(self) -> App:
        return await self.world.app(*self.syncs)


async def at_work(world: World, **fields: Any) -> tuple[Desk, App]:
    """A desk, and a worker at it."""
    desk = Desk(world, **fields)
    app = await desk.app()
    await app.supervisor().start()
    return desk, app


async def start_history(app: App, **more: Any) -> Job:
    request = JobRequest(
        user_id="ada", source="notes", destination="printer", start_date=DAY, end_date=DAY, **more
    )
    return (await app.jobs.submit(request)).job


async def start_live(app: App) -> Job:
    return (await app.jobs.submit("live", user_id="ada")).job


def pages(desk: Desk) -> list[str]:
    return sorted(key for _, key in desk.printer.printed)


@pytest.mark.parametrize("asks", [True, False], ids=["the source asks", "the engine finds out"])
@pytest.mark.parametrize("first", ["live", "history"])
@with_world
async def test_what_one_has_delivered_the_other_counts_and_leaves_alone(
    world: World, first: str, asks: bool
) -> None:
    desk = Desk(world)
    desk.asks = asks
    app = await desk.app()
    await app.supervisor().start()
    starts = {"live": start_live, "history": start_history}
    second = "history" if first == "live" else "live"

    one = await world.until(app, (await starts[first](app)).id)
    other = await world.until(app, (await starts[second](app)).id)

    # Then each record was sent once, by the first
    assert desk.printer.printed == [(first, "a"), (first, "b")]
    assert (one.summary.records, one.summary.delivered) == (2, 2)
    assert (other.summary.records, other.summary.delivered) == (2, 0)
    assert other.summary.delivered_before == 2
    view = await app.jobs.view(other)
    assert (view.counts.found, view.counts.imported) == (2, 0)
    assert view.counts.delivered_before == 2

    # And the records are in one place, under either name
    for name in ("history", "live"):
        stored = await app.records.list(name, "ada")
        assert [each.key for each in stored] == ["a", "b"]
    [found] = await app.records.find(["live", "history"], ["ada"], ["a"])
    assert found.sync == "history"

    # The day is covered with what it has, whoever delivered it
    [row] = await app.records.coverage("history", "ada", start=DAY, end=DAY)
    assert (row.status, row.records) == (DayStatus.HELD, 2)
    assert await app.records.coverage("live", "ada", start=DAY, end=DAY) == []
    assert await app.records.forget(["live"], "ada", ["a"]) == 1


@with_world
async def test_a_job_waits_for_another_that_is_sending_the_same_and_says_so(world: World) -> None:
    # Given a backfill that takes a minute to send its records
    desk, app = await at_work(world)
    desk.printer.takes_s = 60.0
    slow = await start_history(app)
    await world.until(app, slow.id, JobState.RUNNING)
    await world.clock.sleep(1)

    # When a live job finds the same, then it waits, and that counts as no attempt
    live = await start_live(app)
    await world.clock.sleep(2)
    live = await app.jobs.get(live.id)
    assert (live.state, live.reason) == (JobState.PENDING, Reason.RECORDS_CLAIMED)
    assert (await app.jobs.view(live)).message == (
        "Another import is sending some of the same records; going on at 2026-01-01 00:00:16 UTC."
    )

    # And when the other is done, it goes on and has nothing to send
    live, slow = await world.until(app, live.id), await world.until(app, slow.id)
    assert pages(desk) == ["a", "b"]
    assert (live.state, live.summary.errors) == (JobState.SUCCESS, 0)
    assert live.summary.delivered_before == 2
    assert live.finished_at is not None and slow.finished_at is not None
    assert live.finished_at - slow.finished_at <= CLAIMED_WAIT + timedelta(seconds=1)


@pytest.mark.parametrize("seed", seeds(5, first=2))
def test_both_at_the_same_moment_send_each_record_once(tmp_path: Path, seed: int) -> None:
    async def main(world: World) -> None:
        # Given two processes, whose reads end at the same moment
        desk = Desk(world)
        desk.printer.takes_s = 5.0
        one, two = await desk.app(), await desk.app()
        live, slow = await start_live(one), await start_history(two)
        await one.supervisor().start()
        await two.supervisor().start()

        jobs = [await world.until(one, live.id), await world.until(two, slow.id)]

        assert {job.state for job in jobs} == {JobState.SUCCESS}
        assert pages(desk) == ["a", "b"]
        assert sum(job.summary.delivered for job in jobs) == 2
        assert sum(job.summary.delivered_before for job in jobs) == 2

    in_world(tmp_path, main, seed=seed)


@pytest.mark.parametrize(
    "error", [Transient("jam"), RateLimited(timedelta(hours=1))], ids=["failed", "deferred"]
)
@with_world
async def test_a_job_that_fails_to_send_leaves_its_records_to_the_other(
    world: World, error: Exception
) -> None:
    # Given a backfill that failed to send, and tries again later
    desk, app = await at_work(world)
    desk.printer.errors = [error]
    slow = await start_history(app)
    while desk.printer.errors:
        await world.clock.sleep(0.05)
    await world.until(app, slow.id, JobState.PENDING)

    # When a live job comes in between, then it sends them at once
    live = await world.until(app, (await start_live(app)).id)
    assert (live.summary.delivered, live.summary.deferrals) == (2, 0)

    # And the backfill has nothing left to send
    slow = await world.until(app, slow.id)
    assert (slow.state, slow.summary.delivered_before) == (JobState.SUCCESS, 2)
    assert pages(desk) == ["a", "b"]


@with_dying_workers
async def test_a_crashed_sender_keeps_its_records_until_it_is_rescued(world: World) -> None:
    # Given a process that dies with a batch on its way
    desk = Desk(world)
    desk.printer.takes_s = 5.0
    first, second = await desk.app(), await desk.app()
    slow = await start_history(first)
    host = world.loop.host("first")
    await host.spawn(first.supervisor().start())
    await world.until(second, slow.id, JobState.RUNNING)
    await world.clock.sleep(2)
    host.crash()

    # When a live job finds the same records, then it waits until somebody has taken over
    await second.supervisor().start()
    live = await world.until(second, (await start_live(second)).id)
    slow = await world.until(second, slow.id)

    # Nobody knows what became of the batch, so it is sent again: once, by one of the two
    assert pages(desk) == ["a", "b"]
    assert slow.summary.crashes == 1
    assert live.started_at is not None and live.finished_at is not None
    assert live.finished_at >= START + timedelta(seconds=60)
    assert live.summary.delivered + slow.summary.delivered == 2


@with_world
async def test_what_was_refused_is_told_to_the_source_and_may_be_sent_again(world: World) -> None:
    desk, app = await at_work(world)
    desk.printer.refuses = {"b"}
    live = await world.until(app, (await start_live(app)).id)
    assert (live.summary.delivered, live.summary.refused) == (1, 1)

    # When the reason is gone, then another job delivers it
    desk.printer.refuses = set()
    slow = await world.until(app, (await start_history(app)).id)

    assert desk.receipts[-1] == {"a": ReceiptState.TAKEN, "b": ReceiptState.REFUSED}
    assert (slow.summary.delivered, slow.summary.delivered_before) == (1, 1)
    assert pages(desk) == ["a", "b"]


@with_world
async def test_a_day_of_which_everything_was_delivered_before_is_not_empty(world: World) -> None:
    _, app = await at_work(world)
    await world.until(app, (await start_live(app)).id)

    slow = await world.until(app, (await start_history(app)).id)

    assert (slow.summary.days_held, slow.summary.days_empty) == (1, 0)
    [chunk] = [each for each in await app.jobs.events(slow.id) if each.kind == "succeeded"]
    assert chunk.data["records"] == 2
    # A second import of the day has nothing to do.
    again = await world.until(app, (await start_history(app)).id)
    assert again.progress.total == 0


@with_world
async def test_a_record_that_comes_twice_in_a_chunk_is_sent_once(world: World) -> None:
    desk = Desk(world)
    desk.keys = ("a", "b", "a")
    app = await desk.app()
    await app.supervisor().start()

    live = await world.until(app, (await start_live(app)).id)

    assert pages(desk) == ["a", "b"]
    assert (live.summary.records, live.summary.delivered) == (2, 2)


@with_world
async def test_without_delivers_once_nothing_is_remembered(world: World) -> None:
    # Given a destination that updates what it has: it must get a record again
    desk, app = await at_work(world, delivers_once=False)

    await world.until(app, (await start_live(app)).id)
    await world.until(app, (await start_live(app)).id)

    assert pages(desk) == ["a", "a", "b", "b"]
    assert desk.receipts == [{}, {}]


@with_world
async def test_waiting_for_another_job_never_opens_a_breaker(world: World) -> None:
    # Given a backfill that takes half an hour over its records
    desk, app = await at_work(world)
    desk.printer.takes_s = 1800.0
    await start_history(app)
    await world.clock.sleep(1)

    live = await world.until(app, (await start_live(app)).id)

    assert live.state is JobState.SUCCESS
    assert live.summary.deferrals >= 100
    assert set(kinds(await app.jobs.events(live.id, limit=1000))) == {
        "submitted",
        "deferred",
        "succeeded",
    }
