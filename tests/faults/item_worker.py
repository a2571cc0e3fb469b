"""A real worker process that fetches items from a provider on a loopback port, until it is ended.

It prints "ready" when it works. Every request names the item, the token of the claim and the
process, so that the provider can judge for itself who was asked for twice, and by whom.
"""

import asyncio
import os
from datetime import timedelta

from headgate.backends.sql import open_database
from headgate.base.clock import SystemClock
from headgate.base.ids import system_random
from headgate.flow.items.fetch import ItemFetcher, fetch_due
from headgate.model.item import Document, Item
from headgate.model.job import Lane, Mode
from headgate.ports.connector import Context
from headgate.store.sql.items.store import SqlItems
from tests.item_agents import ItemHeartbeat, ItemRescuer
from tests.unit.values import gates

COLLECTION = "faults.streams"
BATCH = 20
#: With nothing due, look again after this.
REST_S = 0.1


class Provider:
    """The other end of the wire."""

    def __init__(self, port: int) -> None:
        """Listen at `port`."""
        self._port = port

    async def connect(self) -> None:
        """One connection for all requests."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def fetch(self, ctx: Context, item: Item) -> Document:
        """One request."""
        self._writer.write(f"{item.id} {item.token} {os.getpid()}\n".encode())
        answer = await self._reader.readline()
        return Document.of_json({"said": answer.decode(), "of": item.id})


async def main() -> None:
    """Fetch until ended."""
    clock = SystemClock()
    database = open_database(os.environ["DATABASE"], clock)
    await database.open()
    fetching = ItemFetcher(
        items=SqlItems(database),
        clock=clock,
        worker=f"worker_{os.getpid()}",
        lease=timedelta(seconds=float(os.environ["LEASE_S"])),
    )
    for service in (ItemHeartbeat(fetching), ItemRescuer(fetching)):
        await service.start()
    provider = Provider(int(os.environ["PORT"]))
    await provider.connect()
    ctx = Context(
        job_id="job_1",
        user_id="user_1",
        connection_id="connection_1",
        sync="streams",
        mode=Mode.FULL,
        day=None,
        cursor=None,
        since=None,
        limit=None,
        options={},
        chunks=0,
        records=0,
        clock=clock,
        gate=gates(clock, system_random()).of(None, Lane.COLD, "connection_1"),
    )
    print("ready", flush=True)
    while True:
        done = await fetch_due(
            fetching,
            ctx,
            provider.fetch,
            collection=COLLECTION,
            connection_id=ctx.connection_id,
            limit=BATCH,
        )
        if not done.items:
            await clock.sleep(REST_S)


if __name__ == "__main__":
    asyncio.run(main())
