"""A real process that drains the outbox to a receiver on a loopback port, until it is ended.

It prints "ready" when it works. `CRASH_AT` says where it kills itself: before its first POST, or
after the answer to it and before that is written.
"""

import asyncio
import os
import signal
from typing import Any

from headgate import App
from headgate.base.secret import Secret
from headgate.flow.outbox.drain import Drainer
from headgate.flow.outbox.drain_scope import DrainScope
from headgate.flow.outbox.service import OutboxSettings
from headgate.loops.supervisor import WorkerSettings
from headgate.model.delivery import Message, SendOutcome
from headgate.model.target import Target, Topic
from headgate.policy.deliveries import DeliveryRetryPolicy

TOPIC = "orders"
#: With nothing due, look again after this.
REST_S = 0.05
RETRY = DeliveryRetryPolicy(base_s=0.01, max_s=0.05)


def open_app(address: str, url: str, *, key: str, lease_s: float, concurrency: int = 4) -> App:
    """An application that sends orders to one target."""
    return App(
        address,
        topics=[Topic(name=TOPIC, path="/v1/orders", targets=("local",))],
        targets=[Target(name="local", url=url, key=Secret(key), concurrency=concurrency)],
        worker=WorkerSettings(lease_s=lease_s, outbox=OutboxSettings(retry=RETRY)),
    )


class CrashingSender:
    """Kills its process at a point."""

    def __init__(self, sender: Any, at: str) -> None:
        """Send by `sender`."""
        self._sender = sender
        self._at = at

    async def send(self, target: Target, topic: Topic, message: Message) -> SendOutcome:
        """Send, or die."""
        if self._at == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        outcome: SendOutcome = await self._sender.send(target, topic, message)
        if self._at == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome


async def main() -> None:
    """Drain until ended."""
    environment = os.environ
    app = open_app(
        environment["DATABASE"],
        environment["URL"],
        key=environment["KEY"],
        lease_s=float(environment["LEASE_S"]),
    )
    async with app:
        drainer: Drainer = app.outbox.drainer
        if environment["CRASH_AT"]:
            drainer.sender = CrashingSender(drainer.sender, environment["CRASH_AT"])
        print("ready", flush=True)
        while True:
            await app.outbox.drain(app.outbox.targets.get("local"), DrainScope(batch=20))
            await app.clock.sleep(REST_S)


if __name__ == "__main__":
    asyncio.run(main())
