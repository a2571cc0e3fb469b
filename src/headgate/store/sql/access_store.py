"""The `Access` port on a SQL database: each method is one transaction around plain functions."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

from sqlalchemy import Connection as Transaction

from headgate.model.access import ApiKey
from headgate.ports.access import Answered, Begun, KeptKey, Known, NewApiKey
from headgate.store.sql import access
from headgate.store.sql.database import Database
from headgate.store.sql.moment import Moment

T = TypeVar("T")


class SqlAccess:
    """API keys and requests in SQLite or Postgres."""

    def __init__(self, database: Database) -> None:
        """Use `database`, which must be open and migrated."""
        self._database = database

    async def _write(self, operation: Callable[[Transaction, Moment], T]) -> T:
        """Give the operation the store's time, read when it runs and not when it was queued."""
        return await self._database.write(lambda tx: operation(tx, self._database.moment()))

    async def add_key(self, new: NewApiKey) -> ApiKey:
        """Store a key."""
        return await self._write(lambda tx, now: access.add_key(tx, now, new))

    async def find_key(self, key_id: str) -> KeptKey | None:
        """The key of that id, revoked or not."""
        return await self._database.read(lambda tx: access.find_key(tx, key_id))

    async def list_keys(self, *, limit: int, after: str | None = None) -> Sequence[ApiKey]:
        """Keys in the order of their ids."""
        return await self._database.read(lambda tx: access.list_keys(tx, limit=limit, after=after))

    async def revoke_key(self, key_id: str) -> ApiKey:
        """The key is good for nothing from now on."""
        return await self._write(lambda tx, now: access.revoke_key(tx, now, key_id))

    async def begin(self, owner: str, key: str, request_hash: str, *, lease: timedelta) -> Known:
        """Begin a request, or learn why not."""
        return await self._write(
            lambda tx, now: access.begin(tx, now, owner, key, request_hash, lease=lease)
        )

    async def finish(
        self, owner: str, key: str, begun: Begun, answered: Answered, *, keep: timedelta
    ) -> bool:
        """Remember the answer."""
        return await self._write(
            lambda tx, now: access.finish(tx, now, owner, key, begun, answered, keep=keep)
        )

    async def abandon(self, owner: str, key: str, begun: Begun) -> None:
        """Forget the request."""
        await self._write(lambda tx, _: access.abandon(tx, owner, key, begun))

    async def ping(self) -> None:
        """Return if the database answers."""
        await self._database.read(access.ping)
