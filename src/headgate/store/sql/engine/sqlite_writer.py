"""The writer of a SQLite file: one thread, group commit, and checkpoints while nobody commits.

All writes of a process go through one connection. While one transaction is made durable, the next
writes queue up; then they run together, each under its own savepoint, and are acknowledged after
one fsync.
"""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine

from headgate.base.errors import StoreUnavailable
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.store.sql.engine.database import Operation, refusal, translate
from headgate.store.sql.engine.sqlite_file import SqliteFile

T = TypeVar("T")

#: The most waiting writes that are made durable together.
GROUP_MAX = 512
#: A checkpoint is made after so many changed rows: a log of a few megabytes.
CHECKPOINT_CHANGES = 4_000
#: SQLite's codes for a locked database: another process has the lock, and did not give it back
#: while this one waited. It may be frozen.
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

#: How an operation ended: when called, it returns the value or raises the error.
Outcome = Callable[[], Any]
_Request = tuple[Operation[Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]

_log = get_logger(__name__)


class SqliteWriter:
    """The one thread that writes."""

    def __init__(self, engine: Engine, file: SqliteFile) -> None:
        """Write to `file` over a connection of `engine`."""
        self._engine = engine
        self._file = file
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="headgate-write", daemon=True)
        self._ready: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Start the thread and wait until it has its connection."""
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        self._requests.put((lambda tx: None, ready, loop))
        self._thread.start()
        await ready

    async def stop(self) -> None:
        """End the thread after all queued writes."""
        self._requests.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    async def submit(self, operation: Operation[T]) -> T:
        """Queue an operation; returns its outcome after the commit of its group.

        Cancelling the caller does not undo the write, which may be durable already.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._requests.put((operation, future, loop))
        return await future

    def _run(self) -> None:
        try:
            connection = self._engine.connect()
        except Exception as error:
            self._refuse_all(translate(error))
            return
        checkpoints = Checkpoints(self._engine, self._file)
        with connection:
            while group := self._next_group():
                operations = [operation for operation, _, _ in group]
                outcomes = run_group(connection, self._file, operations)
                _deliver(group, outcomes)
                checkpoints.make_if_due(connection)

    def _next_group(self) -> list[_Request]:
        group: list[_Request] = []
        request = self._requests.get()
        while request is not None:
            group.append(request)
            if len(group) == GROUP_MAX:
                return group
            try:
                request = self._requests.get_nowait()
            except queue.Empty:
                return group
        if group:
            # The stop came after this group: run the group first, then stop.
            self._requests.put(None)
        return group

    def _refuse_all(self, error: Exception) -> None:
        while group := self._next_group():
            _deliver(group, [_raiser(error) for _ in group])


def _deliver(group: list[_Request], outcomes: list[Outcome]) -> None:
    """Wake the callers, with one call into each event loop, however many wait there."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Outcome]]] = {}
    for (_, future, loop), outcome in zip(group, outcomes, strict=True):
        by_loop.setdefault(loop, []).append((future, outcome))
    for loop, settled in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, settled)


def _resolve(settled: list[tuple[asyncio.Future[Any], Outcome]]) -> None:
    for future, outcome in settled:
        if future.done():
            continue
        try:
            future.set_result(outcome())
        except StopIteration as error:
            future.set_exception(RuntimeError(repr(error)))
        except Exception as error:
            future.set_exception(error)


class Checkpoints:
    """Moves what was committed from the write-ahead log into the file, from time to time.

    SQLite before 3.51.3 may lose commits if one connection makes a checkpoint while another commits
    and begins the log anew (the WAL-reset bug). So a second connection of ours has the file's write
    lock meanwhile: no process can commit then, and of several that want a checkpoint, one makes it
    at a time.
    """

    def __init__(self, engine: Engine, file: SqliteFile) -> None:
        """Connect to `file` by `engine`, when the first checkpoint is due."""
        self._engine = engine
        self._file = file
        self._lock_connection: Connection | None = None
        self._changes = 0

    def make_if_due(self, connection: Connection) -> None:
        """Make a checkpoint if enough rows were changed since the last one."""
        raw = raw_connection(connection)
        if raw.total_changes - self._changes < CHECKPOINT_CHANGES:
            return
        self._changes = raw.total_changes
        try:
            # A connection to a file that is gone would make a new, empty one in its place.
            self._file.check()
            if self._lock_connection is None:
                self._lock_connection = self._engine.connect()
            lock = raw_connection(self._lock_connection)
            lock.execute("BEGIN IMMEDIATE")
            try:
                # Passive: it waits for no reader, and leaves to the next what it could not move.
                raw.execute("PRAGMA wal_checkpoint(PASSIVE)").close()
            finally:
                lock.execute("ROLLBACK")
        except Exception as error:
            # All is durable in the log, and the thread must live; the next checkpoint tries again.
            _log.warning(LogEvent.NO_CHECKPOINT, error=describe_error(error))


def raw_connection(connection: Connection) -> sqlite3.Connection:
    """The driver's own connection."""
    raw = connection.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    return raw


def run_group(
    connection: Connection, file: SqliteFile, operations: list[Operation[Any]]
) -> list[Outcome]:
    """Run the operations in one transaction; an operation that raises is undone alone.

    Nothing is acknowledged unless the COMMIT succeeded, in the file that others find too.
    """
    raw = raw_connection(connection)
    try:
        raw.execute("BEGIN IMMEDIATE")
        outcomes = [_run_one(raw, connection, operation) for operation in operations]
        raw.execute("COMMIT")
        file.check()
    except Exception as error:
        # SQLite has rolled back by itself after some errors (disk full, I/O).
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        return [_raiser(translate_sqlite(error)) for _ in operations]
    return outcomes


def _run_one(raw: sqlite3.Connection, connection: Connection, operation: Operation[Any]) -> Outcome:
    raw.execute("SAVEPOINT operation")
    try:
        value = operation(connection)
    except Exception as error:
        if not raw.in_transaction:
            # SQLite rolled back the whole group, so no operation of it may be acknowledged.
            raise
        raw.execute("ROLLBACK TO operation")
        raw.execute("RELEASE operation")
        return _raiser(translate_sqlite(error))
    raw.execute("RELEASE operation")
    return lambda: value


def _raiser(error: Exception) -> Outcome:
    def outcome() -> Any:
        raise error

    return outcome


def translate_sqlite(error: Exception) -> Exception:
    """Return our own error for one of the driver's or of SQLAlchemy's."""
    if not isinstance(error, sqlite3.Error):
        return translate(error)
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in _LOCKED:
        return StoreUnavailable(f"another process keeps the database locked: {error}")
    return refusal(error, str(error))
