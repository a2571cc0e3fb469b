"""The outbox and real processes: one killed or frozen while it sends, two at once."""

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from headgate import App
from headgate.base.encoding import hash_text, to_json
from headgate.model.delivery import Delivery
from headgate.model.states import DeliveryState
from headgate.ports.outbox import DeliveryFilter, NewMessage
from tests.faults.crew import Crew, freeze
from tests.faults.drain_worker import TOPIC, open_app
from tests.faults.receiver import Receiver, receiving
from tests.processes import Process, once_on

#: Long enough that a busy machine takes no living worker for a dead one.
LEASE_S = 2.0
WAIT_S_MAX = 60.0
ORDERS = 40


class Scene:
    """A database with orders to send, a receiver, and processes between them."""

    def __init__(self, app: App, receiver: Receiver, address: str) -> None:
        self.app = app
        self.receiver = receiver
        self.address = address
        self.crew = Crew(
            "tests.faults.drain_worker",
            DATABASE=address,
            URL=receiver.url,
            KEY=receiver.key,
            LEASE_S=str(LEASE_S),
        )

    async def start(self, *, crash_at: str = "") -> Process:
        """Start a process that drains, and wait until it does."""
        return await asyncio.to_thread(self.crew.start, CRASH_AT=crash_at)

    async def deliveries(self) -> Sequence[Delivery]:
        """All of them."""
        return await self.app.outbox.list(DeliveryFilter(), limit=20_000)

    async def all_sent(self) -> None:
        """Wait until everything is sent, and check that each was accepted once."""
        async with asyncio.timeout(WAIT_S_MAX):
            while True:
                found = await self.deliveries()
                if all(each.state is DeliveryState.SENT for each in found):
                    break
                await asyncio.sleep(0.05)
        assert set(self.receiver.accepted) == {each.message_id for each in found}
        assert self.receiver.changed == []


def new_orders(first: int, count: int) -> list[NewMessage]:
    """Messages about orders, each with its own id as key."""
    payloads = {number: to_json({"order": number}) for number in range(first, first + count)}
    return [
        NewMessage(
            id=f"message_{number:06d}",
            topic=TOPIC,
            key=f"message_{number:06d}",
            payload=payload,
            payload_hash=hash_text(payload),
            targets=["local"],
        )
        for number, payload in payloads.items()
    ]


@asynccontextmanager
async def scene(address: str) -> AsyncIterator[Scene]:
    """A scene whose processes are gone afterwards."""
    async with (
        receiving() as receiver,
        open_app(address, receiver.url, key=receiver.key, lease_s=LEASE_S) as app,
    ):
        await app._outbox_store.add_messages(new_orders(1, ORDERS))
        place = Scene(app, receiver, address)
        try:
            yield place
        finally:
            receiver.answers.set()
            await asyncio.to_thread(place.crew.end)


@pytest.mark.parametrize(
    ("address", "crash_at"),
    [
        ("sqlite", "before"),
        ("sqlite", "during"),
        ("postgres", "after"),
        *(
            pytest.param(*each, marks=pytest.mark.thorough)
            for each in (("postgres", "before"), ("postgres", "during"), ("sqlite", "after"))
        ),
    ],
    indirect=["address"],
)
async def test_what_a_killed_drain_was_sending_arrives_once(address: str, crash_at: str) -> None:
    async with scene(address) as place:
        receiver = place.receiver
        # Given a process that is killed before, during or after its first requests
        if crash_at == "during":
            receiver.answers.clear()
            process = await place.start()
            await receiver.until(lambda: receiver.requests == 4)
            process.send_signal(signal.SIGKILL)
        else:
            process = await place.start(crash_at=crash_at)
        assert await asyncio.to_thread(process.wait) == -signal.SIGKILL
        before = receiver.arrivals.copy()
        assert bool(before) is (crash_at != "before")
        states = {each.state for each in await place.deliveries()}
        assert states == {DeliveryState.PENDING, DeliveryState.SENDING}
        receiver.answers.set()

        # When another drains, then everything is there once, and only what was cut off came twice
        await place.start()
        await place.all_sent()
        assert set(receiver.arrivals.values()) <= {1, 2}
        again = {key for key, times in receiver.arrivals.items() if times == 2}
        assert again == set(before)
        lost = [each for each in await place.deliveries() if each.crashes]
        assert len(lost) == 20
        assert {each.attempts for each in await place.deliveries()} == {1}


@once_on("postgres")
@pytest.mark.fault(4)
async def test_a_drain_that_was_frozen_for_longer_than_its_lease_changes_nothing(
    address: str,
) -> None:
    async with scene(address) as place:
        # Given a process that is frozen while it waits for answers
        receiver = place.receiver
        receiver.answers.clear()
        frozen = await place.start()
        await receiver.until(lambda: receiver.requests == 4)
        await freeze(frozen, address)
        receiver.answers.set()

        # When another has sent everything
        other = await place.start()
        await place.all_sent()
        other.send_signal(signal.SIGKILL)
        await asyncio.to_thread(other.wait)
        before = await place.deliveries()
        arrivals = receiver.arrivals.copy()

        # Then the first changes nothing when it goes on, sends none of the rest, and works on
        frozen.send_signal(signal.SIGCONT)
        await place.app._outbox_store.add_messages(new_orders(ORDERS + 1, 1))
        await place.all_sent()
        assert (await place.deliveries())[:-1] == before
        assert receiver.arrivals - arrivals == {f"message_{ORDERS + 1:06d}": 1}
        assert frozen.poll() is None
