"""The `Accounts` port on a SQL database: each method is one transaction around plain functions."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TypeVar

from sqlalchemy import Connection as Transaction

from headgate.model.account import Connection, ConnectionReason
from headgate.ports.accounts import Attempt, Linked, NewConnection, Renewal, Resealed
from headgate.store.sql import accounts
from headgate.store.sql.database import Database
from headgate.store.sql.moment import Moment

T = TypeVar("T")


class SqlAccounts:
    """Connections in SQLite or Postgres."""

    def __init__(self, database: Database) -> None:
        """Use `database`, which must be open and migrated."""
        self._database = database

    async def _write(self, operation: Callable[[Transaction, Moment], T]) -> T:
        """Give the operation the store's time, read when it runs and not when it was queued."""
        return await self._database.write(lambda tx: operation(tx, self._database.moment()))

    async def add(self, new: NewConnection) -> Connection | None:
        """Store a connection."""
        return await self._write(lambda tx, now: accounts.add(tx, now, new))

    async def reconnect(
        self, connection_id: str, renewal: Renewal, *, user_id: str
    ) -> Connection | None:
        """Give it new credentials and make it active."""
        return await self._write(
            lambda tx, now: accounts.reconnect(tx, now, connection_id, renewal, user_id=user_id)
        )

    async def get(self, connection_id: str, *, user_id: str | None = None) -> Connection:
        """The connection."""
        return await self._database.read(
            lambda tx: accounts.get(tx, connection_id, user_id=user_id)
        )

    async def find(self, user_id: str, source: str, external_id: str) -> Connection | None:
        """The user's connection to that account."""
        return await self._database.read(lambda tx: accounts.find(tx, user_id, source, external_id))

    async def of_account(
        self, source: str, external_id: str, *, limit: int = 100
    ) -> Sequence[Connection]:
        """Every user's connection to that account."""
        return await self._database.read(
            lambda tx: accounts.of_account(tx, source, external_id, limit=limit)
        )

    async def list_connections(
        self, user_id: str, *, limit: int, after: str | None = None
    ) -> Sequence[Connection]:
        """A user's connections."""
        return await self._database.read(
            lambda tx: accounts.of_user(tx, user_id, limit=limit, after=after)
        )

    async def linked(self, connection_id: str, *, user_id: str) -> Linked:
        """The connection with its credentials."""
        return await self._database.read(
            lambda tx: accounts.linked(tx, connection_id, user_id=user_id)
        )

    async def pause(self, connection_id: str, *, user_id: str | None = None) -> Connection:
        """Let it stand still."""
        return await self._steer(connection_id, "pause", ConnectionReason.OPERATOR, user_id)

    async def resume(self, connection_id: str, *, user_id: str | None = None) -> Connection:
        """Let it go on."""
        return await self._steer(connection_id, "resume", ConnectionReason.RESUMED, user_id)

    async def _steer(
        self, connection_id: str, edge: str, reason: ConnectionReason, user_id: str | None
    ) -> Connection:
        return await self._write(
            lambda tx, now: accounts.steer(tx, now, connection_id, edge, reason, user_id=user_id)
        )

    async def remove(self, connection_id: str, *, user_id: str | None = None) -> None:
        """Delete it with its credentials."""
        await self._write(lambda tx, now: accounts.remove(tx, now, connection_id, user_id=user_id))

    async def lease(
        self, connection_id: str, *, version: int, holder: str, term: timedelta
    ) -> bool:
        """Become the one who renews these credentials."""
        return await self._write(
            lambda tx, now: accounts.lease(
                tx, now, connection_id, version=version, holder=holder, term=term
            )
        )

    async def release(self, connection_id: str, *, holder: str) -> None:
        """Give the lease back."""
        await self._write(lambda tx, _: accounts.release(tx, connection_id, holder=holder))

    async def renew(
        self, connection_id: str, renewal: Renewal, *, version: int
    ) -> Connection | None:
        """Store new credentials."""
        return await self._write(
            lambda tx, now: accounts.renew(tx, now, connection_id, renewal, version=version)
        )

    async def refuse(
        self, connection_id: str, *, version: int, reason: ConnectionReason, error: str
    ) -> Connection | None:
        """The provider no longer takes these credentials."""
        return await self._write(
            lambda tx, now: accounts.refuse(
                tx, now, connection_id, version=version, reason=reason, error=error
            )
        )

    async def begin(self, attempt: Attempt, *, term: timedelta) -> None:
        """Remember a user who was sent to the provider's page."""
        await self._write(lambda tx, now: accounts.begin(tx, now, attempt, term=term))

    async def take(self, state_hash: str, *, session_hash: str, user_id: str) -> Attempt | None:
        """The attempt, once."""
        return await self._write(
            lambda tx, now: accounts.take(
                tx, now, state_hash, session_hash=session_hash, user_id=user_id
            )
        )

    async def sealed_otherwise(self, key_id: str, *, after: str, limit: int) -> Sequence[Linked]:
        """Connections under any other key."""
        return await self._database.read(
            lambda tx: accounts.sealed_otherwise(tx, key_id, after=after, limit=limit)
        )

    async def reseal(self, batch: Sequence[Resealed]) -> int:
        """Put them under another key."""
        return await self._write(lambda tx, _: accounts.reseal(tx, batch))

    async def count_by_key(self) -> Mapping[str, int]:
        """How many connections there are under each key."""
        return await self._database.read(accounts.count_by_key)
