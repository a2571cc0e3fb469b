"""The database that runs store operations: `write` and `read` run one transaction each.

A store operation is a plain function on a connection. This module, `sqlite.py` and `postgres.py`
decide in which thread or event loop it runs, how transactions are grouped, and what a driver's
error means; no other module knows the drivers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, Dialect, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from headgate.base.errors import StoreError, StoreUnavailable
from headgate.base.redact import redact
from headgate.store.sql.moment import Moment, StoreTime

T = TypeVar("T")
Operation = Callable[[Connection], T]


class Database(ABC):
    """SQLite or Postgres, behind the same few methods."""

    #: An embedded database belongs to this process, which migrates it at start.
    embedded: bool
    #: The number of concurrent write transactions that is worthwhile.
    writes_at_once: int
    dialect: Dialect
    #: The address for people: whole, and without a password.
    address: str

    def __init__(self, time: StoreTime) -> None:
        """Take the store's time from `time`."""
        self._time = time

    def moment(self) -> Moment:
        """The store's present time; call it inside the operation."""
        return self._time.moment()

    def exists(self) -> bool:
        """Whether it is there; `open` creates an embedded database that is not."""
        return True

    @abstractmethod
    async def open(self) -> None:
        """Connect; safe to call twice."""

    @abstractmethod
    async def close(self) -> None:
        """Finish running operations and disconnect; safe to call twice or before `open`."""

    @abstractmethod
    async def write(self, operation: Operation[T]) -> T:
        """Run `operation` in one transaction; when this returns, its effect is durable."""

    async def autocommit(self, operation: Operation[T], *, read_only: bool = False) -> T:
        """Run `operation` without an explicit transaction, where that is faster.

        It is for operations that mostly are one statement: on a server, BEGIN and COMMIT are two
        more messages. An embedded database runs it in a transaction, which costs nothing extra.
        """
        return await (self.read if read_only else self.write)(operation)

    @abstractmethod
    async def read(self, operation: Operation[T]) -> T:
        """Run `operation` in one read-only transaction."""

    async def ping(self) -> None:
        """Return if the database answers."""
        await self.read(lambda tx: tx.execute(select(1)).one())

    async def free_locks(self) -> int:
        """End transactions whose client has stopped answering; returns how many.

        An embedded database has nothing to do, because the locks are this process's own.
        """
        return 0

    @abstractmethod
    async def migrate(self, operation: Operation[T]) -> T:
        """Run `operation` while no other process changes the schema."""


def translate(error: Exception) -> Exception:
    """Our error for a driver's error, without the statement's values, which may be private."""
    if isinstance(error, DBAPIError):
        # Only the first line: the next ones, DETAIL, quote the row.
        message = redact(str(error.orig).partition("\n")[0])
        if error.connection_invalidated or _is_outage(error):
            return StoreUnavailable(f"the database did not answer: {message}")
        return StoreError(f"the database refused: {message}")
    if isinstance(error, OSError | TimeoutError):
        return StoreUnavailable(f"the database could not be reached: {redact(str(error))}")
    if isinstance(error, SQLAlchemyError):
        return StoreError(redact(str(error)))
    return error


#: SQLSTATE classes: connection exception, operator intervention (shutdown), system error,
#: insufficient resources (too many connections).
_OUTAGE_CLASSES = ("08", "57", "58", "53")
#: SQLSTATE of a statement that waited too long for a lock.
LOCK_NOT_AVAILABLE = "55P03"


def _is_outage(error: DBAPIError) -> bool:
    state = sqlstate(error)
    if state is not None:
        return state[:2] in _OUTAGE_CLASSES or state == LOCK_NOT_AVAILABLE
    message = str(error.orig).lower()
    return any(
        word in message for word in ("locked", "busy", "disk i/o", "is full", "unable to open")
    )


def sqlstate(error: DBAPIError) -> str | None:
    """The five-character code of a Postgres error; None for SQLite."""
    state = getattr(error.orig, "sqlstate", None)
    return state if isinstance(state, str) else None
