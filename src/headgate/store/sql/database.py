"""A database to run store operations on: `write` and `read`, each one transaction.

A store operation is a plain function on a connection. Which thread or event loop it runs in, how
transactions are grouped, and what a driver's error means, is decided here and in `sqlite.py` and
`postgres.py`; nowhere else is a driver's name known.
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

    #: An embedded database belongs to this process, which keeps its schema up to date by itself.
    embedded: bool
    #: Write transactions that it pays to have under way at once.
    writes_at_once: int
    dialect: Dialect

    def __init__(self, time: StoreTime) -> None:
        """Judge time by `time`."""
        self._time = time

    def moment(self) -> Moment:
        """The store's now; call it inside the operation."""
        return self._time.moment()

    @abstractmethod
    async def open(self) -> None:
        """Connect; safe to call twice."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what is under way and disconnect; safe to call twice, or never opened."""

    @abstractmethod
    async def write(self, operation: Operation[T]) -> T:
        """Run `operation` in one transaction; when this returns, its effect is durable."""

    async def autocommit(self, operation: Operation[T], *, read_only: bool = False) -> T:
        """Run `operation`, with each statement a transaction by itself where that is quicker.

        For operations that mostly are one statement: around it, BEGIN and COMMIT would be two more
        messages to a server. Here a transaction costs nothing extra.
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

        Nothing to do where the locks are this process's own.
        """
        return 0

    @abstractmethod
    async def migrate(self, operation: Operation[T]) -> T:
        """Run `operation` alone: nobody else changes the schema meanwhile."""


def translate(error: Exception) -> Exception:
    """A driver's error as one of ours, without the statement's values: they may be private."""
    if isinstance(error, DBAPIError):
        # The first line says what; the next ones, DETAIL, quote the row.
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
#: SQLSTATE of a statement that waited for a lock for longer than it may.
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
    """Postgres's five letters for what went wrong."""
    state = getattr(error.orig, "sqlstate", None)
    return state if isinstance(state, str) else None
