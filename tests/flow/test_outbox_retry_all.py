"""Retrying all that match touches only what can be sent again, whatever else matches."""

from pathlib import Path

from headgate import App, DeliveryFilter, Target, Topic
from headgate.base.secret import Secret
from headgate.flow.claims import LEASE
from headgate.model import delivery as change
from headgate.model.delivery import Delivery
from headgate.model.states import DeliveryState
from tests.worlds import World, in_world


async def claimed(app: App, key: str) -> Delivery:
    """A new delivery that a worker has claimed."""
    message_id = await app.outbox.submit("orders", {"key": key}, key=key)
    [found] = await app.outbox.drainer.store.claim(
        "local", ["orders"], limit=1, lease=LEASE, worker="w", message_id=message_id
    )
    return found.delivery


async def add_one_in_each_state(app: App) -> None:
    """A delivery in each state but that in which a worker has it."""
    for made in (
        change.succeed(await claimed(app, "sent")),
        change.fail(await claimed(app, "failed"), error="503", after=LEASE),
        change.reject(await claimed(app, "dead"), error="422"),
    ):
        assert await app.outbox.drainer.store.settle(made) is not None
    await app.outbox.submit("orders", {"key": "pending"})


def states(found: dict[DeliveryState, int]) -> dict[str, int]:
    return {state.value: count for state, count in found.items() if count}


def test_only_failed_and_dead_deliveries_are_retried(tmp_path: Path) -> None:
    async def main(world: World) -> None:
        app = await world.app(
            topics=[Topic(name="orders", path="/orders", targets=("local",))],
            targets=[Target(name="local", url="https://local.example", key=Secret("k"))],
        )
        await add_one_in_each_state(app)

        sent = DeliveryFilter(states=(DeliveryState.SENT, DeliveryState.PENDING))
        assert await app.outbox.retry_all(sent) == 0
        some = DeliveryFilter(states=(DeliveryState.SENT, DeliveryState.DEAD))
        assert await app.outbox.retry_all(some) == 1
        assert await app.outbox.retry_all(DeliveryFilter()) == 1
        counted = dict((await app.outbox.count())["local"])
        assert states(counted) == {"sent": 1, "pending": 3}

    in_world(tmp_path, main)
