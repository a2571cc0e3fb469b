"""Items and real processes, one of them killed or frozen: none lost, none fetched twice."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from headgate.backends.sql import open_database
from headgate.base.clock import SystemClock
from headgate.model.states import ItemState
from headgate.ports.items import NewItem
from headgate.store.sql.items.store import SqlItems
from tests import stores
from tests.faults.crew import Crew
from tests.faults.item_worker import BATCH, COLLECTION
from tests.faults.provider import WAIT_S_MAX, LineProvider, listening
from tests.processes import Process

ITEMS = 150
#: Long enough that a busy machine takes no living worker for a dead one.
LEASE_S = 2.0


class Provider(LineProvider):
    """Notes every request, by item and claim; keeps one waiting where that is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.by_claim: Counter[tuple[str, int]] = Counter()
        #: The process whose requests are not answered until this is set.
        self.silent_to: int | None = None
        self.silent_to_all = False
        self.speak = asyncio.Event()
        #: Items that are being asked for now: the claim is alive, or its holder was cut off.
        self.met: list[str] = []
        self._asking: dict[str, int] = {}

    @property
    def by_item(self) -> Counter[str]:
        """How often each item was asked for."""
        counts: Counter[str] = Counter()
        for (item_id, _), count in self.by_claim.items():
            counts[item_id] += count
        return counts

    async def answer(self, line: bytes) -> None:
        """Note it, and wait where nothing is said to it."""
        item_id, token, number = line.decode().split()
        process = int(number)
        if self._asking.get(item_id, process) != process:
            self.met.append(item_id)
        self._asking[item_id] = process
        self.by_claim[item_id, int(token)] += 1
        await self.arrive(process)
        if self.silent_to_all or process == self.silent_to:
            await self.speak.wait()
        self._asking.pop(item_id, None)

    def left(self, line: bytes) -> None:
        """A process that was killed asks for nothing any more."""
        process = int(line.split()[-1]) if line else None
        for item_id in [each for each, by in self._asking.items() if by == process]:
            del self._asking[item_id]


class Scene:
    """Hundreds of items, a provider, and processes between them."""

    def __init__(self, items: SqlItems, provider: Provider, crew: Crew) -> None:
        self.items = items
        self.provider = provider
        self._crew = crew

    async def start(self) -> Process:
        """Start a worker, and wait until it works."""
        return await asyncio.to_thread(self._crew.start, PORT=str(self.provider.port))


@asynccontextmanager
async def scene(address: str) -> AsyncIterator[Scene]:
    """A scene that is empty afterwards."""
    database, provider = open_database(address, SystemClock()), Provider()
    crew = Crew("tests.faults.item_worker", DATABASE=address, LEASE_S=str(LEASE_S))
    async with stores.in_use(database), listening(provider):
        items = SqlItems(database)
        await items.register([new_item(number) for number in range(ITEMS)])
        try:
            yield Scene(items, provider, crew)
        finally:
            crew.end()
            provider.speak.set()


def new_item(number: int) -> NewItem:
    """One of them, or one more."""
    return NewItem(
        id=f"item_{number:04d}",
        collection=COLLECTION,
        user_id=f"user_{number % 7}",
        connection_id="connection_1",
        external_id=str(number),
        start_time=stores.START + timedelta(minutes=number),
    )


async def all_done(items: SqlItems) -> None:
    """Wait until every item has been fetched."""
    deadline = time.monotonic() + WAIT_S_MAX
    while (states := (await items.count_items(COLLECTION)).states)[ItemState.SUCCESS] < ITEMS:
        assert time.monotonic() < deadline, states
        await asyncio.sleep(0.1)


async def judge(items: SqlItems, provider: Provider) -> list[str]:
    """Every item has its document, and no claim was used twice; the items whose holder was lost."""
    rows = await items.database.read(stores.contents)
    assert len(rows["item_documents"]) == ITEMS
    assert set(provider.by_claim.values()) == {1}
    found = await items.list_items(COLLECTION, limit=ITEMS + 1)
    assert {item.retry_count for item in found} == {0}
    crashed = [item.id for item in found if item.crashes]
    # Whatever was never lost was asked for exactly once.
    again = {item_id for item_id, count in provider.by_item.items() if count > 1}
    assert again <= set(crashed)
    assert len(provider.by_item) == ITEMS
    return crashed


async def test_of_two_workers_one_is_killed_and_nothing_is_lost_or_fetched_twice(
    address: str,
) -> None:
    async with scene(address) as place:
        # Given two workers under way, and one that hears nothing for a while
        provider = place.provider
        first = await place.start()
        await provider.until(lambda: provider.by_process[first.pid] > 30)
        provider.silent_to = first.pid
        second = await place.start()
        await provider.until(lambda: provider.by_process[second.pid] > 50)

        # When the first is killed with a batch in its hands
        first.send_signal(signal.SIGKILL)
        await asyncio.to_thread(first.wait, 10)
        provider.speak.set()

        # Then the second does everything, and what the first held is all that counted as lost
        await all_done(place.items)
        crashed = await judge(place.items, provider)
        assert provider.met == []
        assert 1 <= len(crashed) <= BATCH
        assert sum(provider.by_item.values()) == ITEMS + 1
        assert second.poll() is None


@pytest.mark.parametrize("address", ["postgres"], indirect=True)
@pytest.mark.fault(4)
async def test_a_worker_frozen_past_its_lease_changes_nothing_when_it_wakes(address: str) -> None:
    async with scene(address) as place:
        # Given a worker that is frozen while it waits for its first answer
        provider = place.provider
        provider.silent_to_all = True
        frozen = await place.start()
        await provider.until(lambda: provider.by_process[frozen.pid] == 1)
        frozen.send_signal(signal.SIGSTOP)
        provider.silent_to, provider.silent_to_all = frozen.pid, False

        # When another has done everything and is gone, and the first gets its answer after all
        other = await place.start()
        await all_done(place.items)
        other.send_signal(signal.SIGKILL)
        await asyncio.to_thread(other.wait, 10)
        before = await place.items.database.read(stores.contents)
        provider.speak.set()
        frozen.send_signal(signal.SIGCONT)
        await place.items.register([new_item(ITEMS)])
        await provider.until(lambda: provider.by_item[f"item_{ITEMS:04d}"] == 1)

        # Then what it had in its hands was refused, it asked for none of the rest, and works on
        after = await place.items.database.read(stores.contents)
        assert after["items"][:-1] == before["items"]
        assert provider.by_process[frozen.pid] == 2
        assert frozen.poll() is None
