"""Hints over SQS: one message for each job that waits, to its lane's queue, in its user's group."""

import asyncio
import io
import json
import string
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from aiobotocore.session import get_session

from headgate.backends.dynamodb import open_dynamodb
from headgate.base.clock import ManualClock
from headgate.base.log import configure
from headgate.model.job import Job, Lane
from headgate.model.states import JobState
from headgate.ports.signal import CONTROL, job_hints, lane_topic
from headgate.signals import sqs
from headgate.signals.sqs import DELAY_S_MAX, HintMessage, SqsSignal, decode_message, group_of
from tests.emulators import CREDENTIALS
from tests.unit.signals.listeners import Listener
from tests.unit.values import NOW, make_job

COLD = lane_topic(Lane.COLD)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, ministack_address: str) -> Iterator[None]:
    """The environment of a function, which names the emulator."""
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": ministack_address}.items():
        monkeypatch.setenv(name, value)
    yield


class Queues:
    """A queue for each lane, and a signal that sends to them."""

    def __init__(self, client: Any, urls: dict[Lane, str]) -> None:
        self._client = client
        self.urls = urls
        self.signal = SqsSignal(urls, ManualClock(NOW).now)

    async def receive(self, lane: Lane) -> list[Any]:
        """All messages that are visible now."""
        found: list[Any] = []
        while True:
            answer = await self._client.receive_message(
                QueueUrl=self.urls[lane], MaxNumberOfMessages=10, AttributeNames=["All"]
            )
            if not answer.get("Messages"):
                return found
            found += answer["Messages"]

    async def count_delayed(self, lane: Lane) -> int:
        answer = await self._client.get_queue_attributes(
            QueueUrl=self.urls[lane], AttributeNames=["All"]
        )
        return int(answer["Attributes"]["ApproximateNumberOfMessagesDelayed"])


@asynccontextmanager
async def queues(name: str) -> AsyncIterator[Queues]:
    async with get_session().create_client("sqs") as client:
        urls = {
            lane: (await client.create_queue(QueueName=f"{name}-{lane}"))["QueueUrl"]
            for lane in Lane
        }
        made = Queues(client, urls)
        await made.signal.start()
        try:
            yield made
        finally:
            await made.signal.stop()
            for url in urls.values():
                await client.delete_queue(QueueUrl=url)


def cold(number: int = 1, **fields: Any) -> Job:
    return make_job(id=f"job_{number}", lane=Lane.COLD, **fields)


async def test_each_job_has_a_message_that_names_it_and_its_step() -> None:
    async with queues("each") as here:
        listener = Listener()
        here.signal.subscribe(COLD, listener)
        # More than one request takes.
        await here.signal.announce(
            COLD, job_hints([cold(number, steps=number) for number in range(23)])
        )
        found = await here.receive(Lane.COLD)
        hints = {decode_message(each["Body"]) for each in found}
        assert hints == {HintMessage(f"job_{number}", number) for number in range(23)}
        assert {each["Attributes"]["MessageGroupId"] for each in found} == {"user_1"}
        assert await here.receive(Lane.HOT) == []
        assert listener.nudges == 1
        # Other topics send nothing, nor does a lane without jobs.
        await here.signal.announce(CONTROL)
        await here.signal.announce(COLD)
        assert await here.receive(Lane.COLD) == []


async def test_only_jobs_that_wait_for_a_worker_have_a_message() -> None:
    async with queues("waiting") as here:
        jobs = [cold(number, state=state) for number, state in enumerate(JobState)]
        await here.signal.announce(COLD, job_hints(jobs))
        [message] = await here.receive(Lane.COLD)
        assert (
            decode_message(message["Body"]).job == f"job_{list(JobState).index(JobState.PENDING)}"
        )


async def test_a_job_that_is_due_later_has_a_delayed_message_and_one_due_much_later_none() -> None:
    async with queues("later") as here:
        due = [NOW - timedelta(hours=1), *(NOW + timedelta(seconds=s) for s in (0.5, 900, 901))]
        await here.signal.announce(COLD, job_hints(cold(n, wake_at=at) for n, at in enumerate(due)))
        assert [decode_message(each["Body"]).job for each in await here.receive(Lane.COLD)] == [
            "job_0"
        ]
        assert await here.count_delayed(Lane.COLD) == 2
        assert DELAY_S_MAX == 900


async def test_a_delay_is_by_the_time_of_the_store(ministack_address: str) -> None:
    """A process whose clock is wrong writes the store's time to its jobs."""
    async with queues("store-time") as here:
        address = f"dynamodb://store-time?endpoint={ministack_address}"
        backend = open_dynamodb(address, ManualClock(NOW), here.urls)
        signal = backend.signal(origin="here")
        await backend.open()
        await signal.start()
        # The answer tells the time, which is far from that of this process's clock.
        await backend.migrate({})
        assert abs(backend.table.now() - NOW) > timedelta(days=1)
        due = [backend.table.now() + timedelta(seconds=s) for s in (-60, 60, 960)]
        try:
            await signal.announce(COLD, job_hints(cold(n, wake_at=at) for n, at in enumerate(due)))
            [message] = await here.receive(Lane.COLD)
            assert decode_message(message["Body"]).job == "job_0"
            assert await here.count_delayed(Lane.COLD) == 1
        finally:
            await signal.stop()
            await backend.close()


async def test_a_queue_that_cannot_be_reached_costs_a_line_in_the_log() -> None:
    async with queues("away") as here:
        signal = SqsSignal({Lane.COLD: f"{here.urls[Lane.COLD]}-not-there"}, ManualClock(NOW).now)
        await signal.start()
        output = io.StringIO()
        configure(ManualClock(NOW), json=True, stream=output)
        await signal.announce(COLD, job_hints([cold()]))
        await signal.stop()
    [line] = [json.loads(each) for each in output.getvalue().splitlines()]
    assert (line["event"], line["count"]) == ("hints_not_sent", 1)


async def test_a_queue_that_does_not_answer_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever waits to be sent: a person may wait for the end of it."""
    asked: list[asyncio.StreamWriter] = []

    async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(writer)

    monkeypatch.setattr(sqs, "SEND_S_MAX", 0.2)
    async with await asyncio.start_server(keep_silent, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        signal = SqsSignal({Lane.COLD: f"{address}/1/queue"}, ManualClock(NOW).now)
        await signal.start()
        output = io.StringIO()
        configure(ManualClock(NOW), json=True, stream=output)
        await signal.announce(COLD, job_hints([cold(number) for number in range(25)]))
        await signal.stop()
        for writer in asked:
            writer.close()
            await writer.wait_closed()
    [line] = [json.loads(each) for each in output.getvalue().splitlines()]
    assert (line["event"], line["count"]) == ("hints_not_sent", 25)
    # Not once for each request of ten; on a busy machine the time ends before the first arrives.
    assert len(asked) <= 1


def test_a_group_is_the_user_or_a_hash_of_the_user() -> None:
    allowed = string.ascii_letters + string.digits + string.punctuation
    assert group_of(allowed) == allowed
    for user in ("zoë", "two words", "a" * 129):
        assert len(group_of(user)) < 128
        assert group_of(user).startswith("sha256:")
    assert group_of("zoë") != group_of("zoé")
