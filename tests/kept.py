"""What tests keep open for those that follow in the same event loop.

A connection to Postgres is a process there that has to learn every table, a new engine compiles
every statement again, and to make a client of AWS takes longer than most tests use it.
"""

import asyncio
import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import botocore.session

from headgate.base.clock import ManualClock, SystemClock
from headgate.store.dynamodb.engine.client import DynamoClient
from headgate.store.sql.engine.postgres import PostgresDatabase


class Kept:
    """Connections, by the address that they lead to."""

    def __init__(self) -> None:
        self._databases: dict[str, PostgresDatabase] = {}
        self._clients: dict[str | None, DynamoClient] = {}

    def lend_pool(self, to: PostgresDatabase) -> None:
        """Let a database that is not open yet use the connections of those before it."""
        url = to.dsn
        if url not in self._databases:
            self._databases[url] = PostgresDatabase(url, ManualClock(SystemClock().now()))
        kept = self._databases[url]
        to._engine, to._autocommitting = kept._engine, kept._autocommitting
        to.dialect = kept.dialect

    async def lend_client(self, to: DynamoClient) -> None:
        """The same for a client that is not open yet."""
        endpoint = to.address.endpoint
        if endpoint not in self._clients:
            made = DynamoClient(to.address, to._clock, to.rng, session=to._session)
            made.read_s_max = to.read_s_max
            await made.open()
            self._clients[endpoint] = made
        to._client = self._clients[endpoint]._client

    async def close(self) -> None:
        """Close all."""
        for database in self._databases.values():
            await database.close()
        for client in self._clients.values():
            await client.close()


def keep_models() -> None:
    """Let all sessions of this process share what they read of AWS's services.

    Each application makes sessions of its own, and reading takes longer than most tests.
    """
    shared = functools.cache(botocore.session.create_loader)
    botocore.session.create_loader = shared


_of_loop: dict[asyncio.AbstractEventLoop, Kept] = {}


def kept_here() -> Kept | None:
    """What is kept in this event loop, if it is one that several tests share."""
    return _of_loop.get(asyncio.get_running_loop())


@asynccontextmanager
async def keep_open() -> AsyncIterator[None]:
    """Keep what is opened in this event loop until the block ends."""
    loop = asyncio.get_running_loop()
    _of_loop[loop] = kept = Kept()
    try:
        yield
    finally:
        del _of_loop[loop]
        await kept.close()
