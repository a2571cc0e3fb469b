"""Functions on DynamoDB and SQS: they work on what messages name; nothing is lost or doubled."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from headgate import App, Chunk, Context, JobState, LaneSize, Record, Sync
from headgate.base.clock import SystemClock
from headgate.base.errors import StoreUnavailable
from headgate.flow.leases.claims import BEATS_PER_LEASE, LEASE
from headgate.loops.on_demand import RESERVE_S
from headgate.loops.supervisor import WorkerSettings
from headgate.model.job import Job, Lane
from headgate.policy.hints import RECEIVED_WITHIN
from headgate.store.dynamodb.engine.definition import BY_AGE
from tests.aws_calls import Functions, Killed, LateClock, StaleClient, backend_on, client_of
from tests.aws_stack import Stack
from tests.dynamo_faults import Fault, first
from tests.worlds import ScriptedSource

PAGES = 3
HOT, COLD = Lane.HOT, Lane.COLD


class RealClock(LateClock):
    """A clock that skips nothing."""

    async def sleep(self, seconds: float) -> None:
        await SystemClock().sleep(seconds)


class Place:
    """An application on the stack whose sync reads pages, and what its source was asked for."""

    def __init__(
        self, stack: Stack, *, lane: Lane = COLD, worker: WorkerSettings | None = None
    ) -> None:
        self.clock = LateClock()
        self.reads: list[int] = []
        #: Called before a page is read.
        self.before: Callable[[int], Awaitable[None]] | None = None
        self._stack = stack
        self._lane = lane
        self._worker = worker or WorkerSettings()
        self.functions = Functions(stack, self._make_app)

    def _make_app(self) -> App:
        sync = Sync(name="pages", source=ScriptedSource(self._read), lane=self._lane)
        return App(
            backend_on(self._stack, self.clock), syncs=[sync], worker=self._worker, clock=self.clock
        )

    async def _read(self, ctx: Context) -> Chunk:
        page = ctx.cursor if isinstance(ctx.cursor, int) else 0
        self.reads.append(page)
        if self.before is not None:
            await self.before(page)
        record = Record(key=f"{page}", data={"page": page})
        return Chunk(records=[record], cursor=None if page == PAGES - 1 else page + 1)

    @property
    def client(self) -> StaleClient:
        return client_of(self.functions)

    def submit(self, user_id: str, **more: Any) -> Job:
        async def submit(app: App) -> Job:
            return (await app.jobs.submit("pages", user_id=user_id, **more)).job

        return self.functions.container.run(submit)

    def job(self, job_id: str) -> Job:
        return self.functions.container.run(lambda app: app.jobs.get(job_id))

    def later(self, time: timedelta) -> None:
        """Set the clock forward, and call the sweeper."""
        self.clock.ahead += time
        self.functions.sweep()

    def close(self) -> None:
        # What a test has left in the queues is not the next one's.
        for lane in Lane:
            self.functions.receive(lane)
        self.functions.close()


@pytest.fixture
def place(stack: Stack) -> Iterator[Place]:
    here = Place(stack)
    yield here
    here.close()


def test_a_message_brings_a_job_to_its_end(place: Place) -> None:
    job = place.submit("plain")
    [message] = place.functions.receive(COLD)
    assert place.functions.deliver(COLD, [message]) == []
    assert place.job(job.id).state is JobState.SUCCESS
    assert place.reads == [0, 1, 2]
    assert place.functions.receive(COLD) == []
    # Nothing scans the table.
    assert place.client.sent["scan"] == 0


@pytest.mark.fault(8, 9)
def test_a_message_that_comes_twice_or_late_does_nothing(place: Place) -> None:
    job = place.submit("twice")
    [message] = place.functions.receive(COLD)
    # Two at once, and once more when the job is long done.
    assert place.functions.deliver(COLD, [message, {**message, "messageId": "again"}]) == []
    assert place.functions.deliver(COLD, [message]) == []
    assert place.job(job.id).state is JobState.SUCCESS
    assert place.reads == [0, 1, 2]


@pytest.mark.fault(12)
def test_a_slice_ends_before_the_time_runs_out_and_the_next_message_goes_on(place: Place) -> None:
    job = place.submit("short")
    [message] = place.functions.receive(COLD)
    # No time at all is left for work: the job is released, and has another message.
    assert place.functions.deliver(COLD, [message], remaining_s=RESERVE_S) == []
    assert place.job(job.id).state is JobState.PENDING
    steps = []
    while found := place.functions.receive(COLD):
        # Time for one chunk.
        place.functions.deliver(COLD, found, remaining_s=RESERVE_S + 0.001)
        steps.append(place.job(job.id).steps)
        assert len(steps) < 50
    assert place.job(job.id).state is JobState.SUCCESS
    assert place.reads.count(2) >= 1


@pytest.mark.fault(12)
def test_a_function_that_is_killed_in_the_middle_of_a_chunk_loses_nothing(place: Place) -> None:
    job = place.submit("killed")

    async def kill(page: int) -> None:
        if page == 1:
            place.before = None
            raise Killed

    place.before = kill
    with pytest.raises(Killed):
        place.functions.deliver(COLD, place.functions.receive(COLD))
    place.functions.start_cold()
    assert place.job(job.id).state is JobState.RUNNING
    # Its lease ends, the sweeper rescues it, and sends a message.
    place.later(2 * LEASE)
    assert place.job(job.id).state is JobState.PENDING
    assert place.job(job.id).crashes == 1
    # A crash is followed by a short wait, for which the message is held back.
    place.later(RECEIVED_WITHIN)
    assert place.functions.deliver(COLD, place.functions.receive(COLD)) == []
    assert place.job(job.id).state is JobState.SUCCESS
    assert place.reads == [0, 1, 1, 2]


@pytest.mark.fault(10, 14)
def test_a_lost_message_is_sent_again_and_a_stale_index_does_no_harm(place: Place) -> None:
    job = place.submit("lost")
    place.functions.receive(COLD)
    assert place.functions.sweep() == 0
    place.later(RECEIVED_WITHIN)
    [message] = place.functions.receive(COLD)
    # The index still names the job when it is done: another message claims nothing.
    place.clock.ahead += RECEIVED_WITHIN
    with place.client.stale():
        assert place.functions.sweep() == 1
        place.functions.deliver(COLD, [message])
        place.functions.sweep()
    for late in place.functions.receive(COLD):
        assert place.functions.deliver(COLD, [late]) == []
    assert place.job(job.id).state is JobState.SUCCESS
    assert place.reads == [0, 1, 2]


@pytest.mark.fault(14)
def test_a_lost_message_is_sent_again_although_nothing_can_be_pruned(place: Place) -> None:
    job = place.submit("announced")
    place.functions.receive(COLD)
    place.clock.ahead += RECEIVED_WITHIN
    # A new process prunes at once, and here the index of old events does not answer.
    place.functions.close()
    place.functions.start_cold()
    place.client.choose = lambda _, request: (
        Fault.UNREACHABLE if request.get("IndexName") == BY_AGE else None
    )
    with pytest.raises(StoreUnavailable):
        place.functions.sweep()
    assert place.client.met[Fault.UNREACHABLE] > 0
    assert place.functions.deliver(COLD, place.functions.receive(COLD)) == []
    assert place.job(job.id).state is JobState.SUCCESS


def test_a_backlog_gets_few_messages(place: Place) -> None:
    place.submit("behind")
    [message] = place.functions.receive(COLD)
    # In an hour of sweeps: after 5, 10, 20 and 40 minutes.
    sent = 0
    for _ in range(24):
        place.clock.ahead += timedelta(minutes=2.5)
        sent += place.functions.sweep()
    assert sent == 4
    assert place.functions.deliver(COLD, [message]) == []


def test_a_job_that_waits_for_long_has_a_message_when_it_is_due(place: Place) -> None:
    job = place.submit("delayed", delay_s=3600.0)
    assert place.functions.receive(COLD) == []
    place.later(timedelta(minutes=59))
    assert place.functions.receive(COLD) == []
    place.later(timedelta(minutes=1, seconds=1))
    assert place.functions.deliver(COLD, place.functions.receive(COLD)) == []
    assert place.job(job.id).state is JobState.SUCCESS


@pytest.mark.fault(14)
def test_throttled_writes_are_repeated(place: Place) -> None:
    job = place.submit("throttled")
    place.client.choose = first(3, Fault.THROTTLED, of="transact_write_items")
    assert place.functions.deliver(COLD, place.functions.receive(COLD)) == []
    assert place.client.met[Fault.THROTTLED] == 3
    assert place.job(job.id).state is JobState.SUCCESS
    assert place.reads == [0, 1, 2]


@pytest.mark.fault(11)
def test_a_message_that_fails_is_named_and_the_others_are_not(place: Place) -> None:
    job = place.submit("partial")
    [good] = place.functions.receive(COLD)
    bad = {"messageId": "bad", "body": "no hint"}
    assert place.functions.deliver(COLD, [bad, good]) == ["bad"]
    assert place.job(job.id).state is JobState.SUCCESS


def test_the_container_is_kept_from_call_to_call(place: Place) -> None:
    app = place.functions.container.app
    for number in range(3):
        place.submit(f"kept-{number}")
        place.functions.deliver(COLD, place.functions.receive(COLD))
    assert place.functions.container.app is app
    assert not place.functions.container.pending_tasks()


def test_live_jobs_have_their_own_queue_function_and_slices(stack: Stack) -> None:
    # Given a hot lane whose slices are one chunk, and a cold one with time for all
    lanes = {HOT: LaneSize(concurrency=1, slice_s=0.0), COLD: LaneSize(concurrency=1, slice_s=60.0)}
    place = Place(stack, lane=HOT, worker=WorkerSettings(lanes=lanes))
    job = place.submit("live")
    assert place.functions.receive(COLD) == []
    # Then each message of the hot queue is good for a chunk, and the next goes there again
    for page in range(PAGES):
        [message] = place.functions.receive(HOT)
        assert place.functions.deliver(HOT, [message]) == []
        assert place.reads == list(range(page + 1))
    assert place.job(job.id).state is JobState.SUCCESS
    assert place.functions.receive(COLD) == place.functions.receive(HOT) == []
    place.close()


@pytest.mark.fault(12)
def test_a_chunk_that_does_not_end_is_interrupted_before_the_function_is_killed(
    place: Place,
) -> None:
    job = place.submit("endless")

    async def wait_for_ever(page: int) -> None:
        await asyncio.Event().wait()

    place.before = wait_for_ever
    # Were it not interrupted, this call would not end.
    [message] = place.functions.receive(COLD)
    assert place.functions.deliver(COLD, [message], remaining_s=RESERVE_S + 0.2) == []
    after = place.job(job.id)
    assert (after.state, after.steps, after.crashes) == (JobState.PENDING, 0, 0)
    place.before = None
    [message] = place.functions.receive(COLD)
    assert place.functions.deliver(COLD, [message]) == []
    assert place.job(job.id).state is JobState.SUCCESS


def test_a_lease_is_extended_while_a_chunk_is_worked_on(stack: Stack) -> None:
    lease_s = 0.9
    place = Place(stack, worker=WorkerSettings(lease_s=lease_s))
    place.clock = RealClock()
    job = place.submit("long")
    leases: list[datetime | None] = []

    async def look(page: int) -> None:
        app = place.functions.container.app
        leases.append((await app.jobs.get(job.id)).lease_until)
        if page == 0:
            await SystemClock().sleep(2 * lease_s / BEATS_PER_LEASE)
            leases.append((await app.jobs.get(job.id)).lease_until)

    place.before = look
    assert place.functions.deliver(COLD, place.functions.receive(COLD)) == []
    first, second = leases[:2]
    assert first is not None and second is not None and first < second
    assert place.job(job.id).state is JobState.SUCCESS
    place.close()


def test_functions_count_as_a_worker_after_each_sweep(place: Place) -> None:
    async def lanes(app: App) -> set[Lane]:
        return {
            lane
            for each in await app._runtime.workers.live_workers()
            for lane in each.abilities.lanes
        }

    # Later than any other test has swept.
    place.clock.ahead += timedelta(days=2)
    assert place.functions.container.run(lanes) == set()
    place.functions.sweep()
    assert place.functions.container.run(lanes) == {HOT, COLD}
    place.clock.ahead += timedelta(minutes=6)
    assert place.functions.container.run(lanes) == set()
