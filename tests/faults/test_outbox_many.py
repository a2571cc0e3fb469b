"""The outbox with many messages, to a target that is down, fails, rejects some, or has a wrong key.

The target is the emulated backend, or a small receiver, on a loopback port.
"""

import asyncio
from collections import Counter

import pytest

from headgate import App
from headgate.base.clock import SystemClock
from headgate.base.secret import Secret
from headgate.flow.drain_scope import DrainScope
from headgate.flow.outbox import OutboxSettings
from headgate.loops.supervisor import WorkerSettings
from headgate.model.states import DeliveryState
from headgate.model.target import Target, Topic
from headgate.sandbox.price_history.sandbox import BATCH, PriceHistory
from headgate.sandbox.serving import serving
from tests.faults.drain_worker import RETRY, open_app
from tests.faults.receiver import receiving
from tests.faults.test_outbox import new_orders
from tests.processes import once_on
from tests.servers import unused_port

#: More than a batch and a page, on both databases with what is thorough, and then ten thousand.
MANY = [
    pytest.param("sqlite", 1_000),
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


@once_on("sqlite")
@pytest.mark.fault(31)
async def test_a_backend_that_is_stopped_gets_everything_once_when_it_starts(address: str) -> None:
    # Given a backend that does not run, and snapshots to deliver
    backend, port = PriceHistory(SystemClock(), limit=100_000), unused_port()
    target = Target(
        name="local", url=f"http://127.0.0.1:{port}/local", key=Secret(backend.api_key("local"))
    )
    async with App(
        address,
        topics=[Topic(name="price-history", path=BATCH, targets=("local",))],
        targets=[target],
        worker=WorkerSettings(outbox=OutboxSettings(retry=RETRY)),
    ) as app:
        for number in range(30):
            snapshot = {
                "productId": f"p-{number}",
                "sourceId": "shop",
                "price": 9.99,
                "scrapedAt": "2026-01-01T00:00:00Z",
            }
            await app.outbox.submit("price-history", {"runId": "run-1", "normalized": [snapshot]})

        # When it is drained, again and again, then everything waits, however often it was tried
        results = [await app.outbox.drain(target) for _ in range(5)]
        assert {(each.sent, each.dead) for each in results} == {(0, 0)}
        # Of the first everything was due, so it has seen enough fail to let the target rest.
        assert results[0].rest_s is not None
        waiting = await states(app)
        assert waiting.total() == 30
        assert waiting.keys() <= {DeliveryState.PENDING, DeliveryState.FAILED}

        # And when the backend starts, then everything arrives
        with serving(backend, port):
            await drain_all(app)
        assert await states(app) == {DeliveryState.SENT: 30}
        accepted = backend.environment("local")
        assert len(accepted.snapshots) == 30
        assert set(accepted.arrivals.values()) == {1}
