"""The outbox with many messages, to a target on a loopback port that fails one in five."""

import asyncio
from collections import Counter

import pytest

from headgate import App
from headgate.flow.outbox.drain_scope import DrainScope
from headgate.model.states import DeliveryState
from tests.faults.drain_worker import open_app
from tests.faults.receiver import receiving
from tests.faults.test_outbox import new_orders

#: More than a batch and a page, on both databases with what is thorough, and then ten thousand.
MANY = [
    pytest.param("sqlite", 600),
    *(pytest.param(kind, 10_000, marks=pytest.mark.thorough) for kind in ("sqlite", "postgres")),
]

LEASE_S = 30.0
#: Far above what is needed: reached only when a test fails.
ROUNDS_MAX = 1000


async def states(app: App) -> Counter[DeliveryState]:
    """How many deliveries are in each state, without those that none is in."""
    counts = (await app.outbox.count()).get("local", {})
    return Counter({state: number for state, number in counts.items() if number})


async def drain_all(app: App) -> Counter[str]:
    """Drain until nothing waits; what all the drains did."""
    target, done = app.outbox.targets.get("local"), Counter[str]()
    store, topics = app._outbox_store, list(app.outbox.targets.topics)
    for _ in range(ROUNDS_MAX):
        result = await app.outbox.drain(target, DrainScope(batch=500))
        done += Counter(sent=result.sent, failed=result.failed, dead=result.dead)
        due_s = await store.next_due_s("local", topics)
        if due_s is None:
            return done
        await asyncio.sleep(due_s)
    raise AssertionError(f"something still waits: {await states(app)}")


@pytest.mark.slow
@pytest.mark.parametrize(("address", "many"), MANY, indirect=["address"])
async def test_many_to_a_target_that_fails_one_in_five_all_arrive_once(
    address: str, many: int
) -> None:
    async with (
        receiving() as receiver,
        open_app(address, receiver.url, key=receiver.key, lease_s=LEASE_S, concurrency=16) as app,
    ):
        receiver.fails_every = 5
        await app._outbox_store.add_messages(new_orders(1, many))

        done = await drain_all(app)

        assert await states(app) == {DeliveryState.SENT: many}
        assert (done["sent"], done["dead"]) == (many, 0)
        assert done["failed"] == receiver.requests // 5
        assert len(receiver.accepted) == many
        # Half of the failures came after the message was accepted: it was sent again, and known.
        assert sum(receiver.arrivals.values()) == receiver.requests == many + done["failed"]
        assert receiver.changed == receiver.met == []
