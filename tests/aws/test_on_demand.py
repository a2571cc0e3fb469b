"""Functions on DynamoDB and SQS: they work on what messages name; nothing is lost or doubled."""

from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from headgate import App, Chunk, Context, JobState, Record, Sync
from headgate.base.errors import StoreUnavailable
from headgate.flow.claims import LEASE
from headgate.loops.on_demand import RESERVE_S
from headgate.model.job import Job, Lane
from headgate.policy.hints import RECEIVED_WITHIN
from headgate.store.dynamodb.definition import BY_AGE
from tests.aws_calls import Functions, Killed, LateClock, StaleClient, backend_on, client_of
from tests.aws_stack import Stack
from tests.dynamo_faults import Fault, first
from tests.worlds import ScriptedSource

PAGES = 3
COLD = Lane.COLD


class Place:
    """An application on the stack whose sync reads pages, and what its source was asked for."""

    def __init__(self, stack: Stack) -> None:
        self.clock = LateClock()
        self.reads: list[int] = []
        #: Called before a page is read.
        self.before: Callable[[int], Awaitable[None]] | None = None
        self._stack = stack
        self.functions = Functions(stack, self._make_app)

    def _make_app(self) -> App:
        sync = Sync(name="pages", source=ScriptedSource(self._read), lane=COLD)
        return App(backend_on(self._stack, self.clock), syncs=[sync], clock=self.clock)

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

    def submit(self, connection_id: str, **more: Any) -> Job:
        async def submit(app: App) -> Job:
            submitted = await app.jobs.submit(
                "pages", user_id="ada", connection_id=connection_id, **more
            )
            return submitted.job

        return self.functions.container.run(submit)

    def job(self, job_id: str) -> Job:
        return self.functions.container.run(lambda app: app.jobs.get(job_id))

    def later(self, time: timedelta) -> None:
        """Set the clock forward, and call the sweeper."""
        self.clock.ahead += time
        self.functions.sweep()


@pytest.fixture
def place(stack: Stack) -> Iterator[Place]:
    here = Place(stack)
    yield here
    # What a test has left in the queue is not the next one's.
    here.functions.receive(COLD)
    here.functions.close()


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
    for _ in range(60):
        place.clock.ahead += timedelta(minutes=1)
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
