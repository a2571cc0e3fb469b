"""The database that runs store operations: `write` and `read` run one transaction each.

A store operation is a plain function on a connection. This module, `sqlite.py` and `postgres.py`
decide in which thread or event loop it runs, how transactions are grouped, and what a driver's
error means; no other module knows the drivers.
"""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, Dialect, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from headgate.base.errors import (
    FaultKind,
    StoreError,
    StoreFault,
    StoreUnavailable,
)
from headgate.base.redact import redact
from headgate.store.sql.engine.moment import Moment, StoreTime

T = TypeVar("T")

#: How long a fault is reported after it was last met: longer than jobs wait because of one.
FAULT_S = 150.0

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
        #: The last fault of the disk or the file, and when this process met it.
        self._fault: tuple[StoreFault, float] | None = None

    def note_fault(self, error: Exception) -> Exception:
        """Remember the error if it is a fault of the disk or the file; returns it."""
        if isinstance(error, StoreFault):
            self._fault = (error, self._time.monotonic())
        return error

    def find_fault(self) -> StoreFault | None:
        """What is wrong with the disk or the file, as this process met it a short while ago."""
        if self._fault is None or self._time.monotonic() - self._fault[1] > FAULT_S:
            return None
        return self._fault[0]

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
        """Return if the database answers, and its disk and file are in order."""
        await self.read(lambda tx: tx.execute(select(1)).one())
        if (fault := self.find_fault()) is not None:
            raise fault

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
        if fault_kind(error.orig) is None and (error.connection_invalidated or _is_outage(error)):
            return StoreUnavailable(f"the database did not answer: {message}")
        return refusal(error.orig, message)
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
    return any(word in message for word in ("locked", "busy", "unable to open"))


#: What SQLite's result codes say about the disk, and what Postgres' SQLSTATEs do.
_FAULTS: dict[int | str, FaultKind] = {
    sqlite3.SQLITE_READONLY_DBMOVED: FaultKind.DATABASE_REPLACED,
    sqlite3.SQLITE_FULL: FaultKind.DISK_FULL,
    sqlite3.SQLITE_READONLY: FaultKind.DISK_READ_ONLY,
    sqlite3.SQLITE_IOERR: FaultKind.DISK_BROKEN,
    sqlite3.SQLITE_CORRUPT: FaultKind.DISK_BROKEN,
    "53100": FaultKind.DISK_FULL,
    "25006": FaultKind.DISK_READ_ONLY,
    "58030": FaultKind.DISK_BROKEN,
    "XX001": FaultKind.DISK_BROKEN,
    "XX002": FaultKind.DISK_BROKEN,
}


def fault_kind(error: BaseException | None) -> FaultKind | None:
    """The fault of the disk or the file that a driver's error reports; None if it reports none."""
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(code, int):
        # The lowest byte is the kind of the error, the rest is a detail of it.
        return _FAULTS.get(code) or _FAULTS.get(code & 0xFF)
    return _FAULTS.get(str(getattr(error, "sqlstate", None)))


def refusal(error: BaseException | None, message: str) -> StoreError:
    """Our error for a driver's error that says why the database refused."""
    kind, message = fault_kind(error), f"the database refused: {message}"
    return StoreError(message) if kind is None else StoreFault(kind, message)


def sqlstate(error: DBAPIError) -> str | None:
    """The five-character code of a Postgres error; None for SQLite."""
    state = getattr(error.orig, "sqlstate", None)
    return state if isinstance(state, str) else None
