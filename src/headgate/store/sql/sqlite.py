"""SQLite: one writer, many readers, group commit.

All writes of a process go through one connection. While one transaction is being made durable, the
next writes queue up; they are then run together, each under its own savepoint, and acknowledged
after one fsync. One writer is also what keeps clear of SQLite's WAL-reset bug (before 3.51.3),
which needs two connections writing or checkpointing at once.
"""

import asyncio
import functools
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from pathlib import Path
from typing import Any, Literal, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from headgate.base.clock import Clock
from headgate.base.errors import StoreError
from headgate.store.sql.database import Database, Operation, translate
from headgate.store.sql.moment import StoreTime

T = TypeVar("T")

#: How many waiting writes are made durable together, at most.
GROUP_MAX = 512
#: How long to wait for another process that holds the file's write lock.
BUSY_S = 10.0
_WAL_TRIES_MAX = 100
#: Reads that run at the same time, at most.
READERS = 4

Synchronous = Literal["FULL", "OFF"]


class SqliteDatabase(Database):
    """A SQLite file, written by a thread of its own."""

    embedded = True
    writes_at_once = 1

    def __init__(self, path: Path, clock: Clock, *, synchronous: Synchronous = "FULL") -> None:
        """Use the file at `path`; FULL survives a power cut, OFF only a crash (for simulation)."""
        super().__init__(StoreTime(clock, server=False))
        self.path = path
        self._engine = _engine(path, synchronous)
        self._reading = _engine(path, synchronous, query_only=True)
        self.dialect = self._engine.dialect
        self._writer: _Writer | None = None
        self._readers: ThreadPoolExecutor | None = None

    async def open(self) -> None:
        """Make the file, readable by its owner alone, and start the writer."""
        if self._writer is None:
            _make_private(self.path)
            writer = _Writer(self._engine)
            try:
                await writer.start()
            except BaseException:
                await writer.stop()
                self._engine.dispose()
                raise
            self._writer = writer
            self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="headgate-read")

    async def close(self) -> None:
        """Let the writer finish what it was given."""
        writer, readers = self._writer, self._readers
        self._writer = self._readers = None
        if writer is not None and readers is not None:
            await writer.stop()
            readers.shutdown()
            self._reading.dispose()
            self._engine.dispose()

    async def write(self, operation: Operation[T]) -> T:
        """Queue for the next group commit."""
        if self._writer is None:
            raise StoreError("the database is not open")
        return await self._writer.submit(operation)

    async def read(self, operation: Operation[T]) -> T:
        """Run on a reader's connection: it sees what was committed when it began."""
        if self._readers is None:
            raise StoreError("the database is not open")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, read_now, self._reading, operation)

    async def migrate(self, operation: Operation[T]) -> T:
        """A write like any other: BEGIN IMMEDIATE shuts everybody else out."""
        return await self.write(operation)

    async def foreign_commits(self) -> int:
        """A number that changes when another process has committed to the file."""
        return await self.write(
            lambda tx: int(tx.exec_driver_sql("PRAGMA data_version").scalar_one())
        )


class InlineSqliteDatabase(Database):
    """A SQLite file, used in the calling task: no threads, so that a simulation decides the order.

    The clock's zero-length sleeps are where another task may run, or this one may crash: before the
    operation, and after it took effect but before its caller knows.
    """

    embedded = True
    writes_at_once = 1

    def __init__(self, path: Path, clock: Clock, *, synchronous: Synchronous = "OFF") -> None:
        """Use the file at `path`."""
        super().__init__(StoreTime(clock, server=False))
        self.path = path
        self._clock = clock
        self._engine = _engine(path, synchronous)
        self._reading = _engine(path, synchronous, query_only=True)
        self.dialect = self._engine.dialect
        self._connection: Connection | None = None

    async def open(self) -> None:
        """Connect."""
        if self._connection is None:
            _make_private(self.path)
            self._connection = self._engine.connect()

    async def close(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._reading.dispose()
            self._engine.dispose()

    async def write(self, operation: Operation[T]) -> T:
        """Run at once, between two points where others may run."""
        await self._clock.sleep(0)
        assert self._connection is not None
        [outcome] = _run_group(self._connection, [operation])
        await self._clock.sleep(0)
        value: T = outcome()
        return value

    async def read(self, operation: Operation[T]) -> T:
        """Run at once, between two points where others may run."""
        await self._clock.sleep(0)
        value = read_now(self._reading, operation)
        await self._clock.sleep(0)
        return value

    async def migrate(self, operation: Operation[T]) -> T:
        """A write like any other."""
        return await self.write(operation)


Outcome = Callable[[], Any]
_Request = tuple[Operation[Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class _Writer:
    """The one thread that writes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
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
        """End after what is queued."""
        self._requests.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    async def submit(self, operation: Operation[T]) -> T:
        """Queue an operation; its outcome comes with the commit of its group.

        Cancelling the caller does not undo the write: it may have been made durable already.
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
        with connection:
            while group := self._next_group():
                outcomes = _run_group(connection, [operation for operation, _, _ in group])
                _deliver(group, outcomes)

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
            # The stop came behind this group: run it first, find the stop again after it.
            self._requests.put(None)
        return group

    def _refuse_all(self, error: Exception) -> None:
        while group := self._next_group():
            _deliver(group, [_raiser(error) for _ in group])


def _deliver(group: list[_Request], outcomes: list[Outcome]) -> None:
    """Wake the callers, with one hop into each event loop however many wait there."""
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


def _run_group(connection: Connection, operations: list[Operation[Any]]) -> list[Outcome]:
    """Run the operations in one transaction; one that raises is undone alone.

    Nothing is acknowledged unless the COMMIT succeeded.
    """
    raw = connection.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    try:
        raw.execute("BEGIN IMMEDIATE")
        outcomes = [_run_one(raw, connection, operation) for operation in operations]
        raw.execute("COMMIT")
    except Exception as error:
        # SQLite has rolled back by itself after some errors (disk full, I/O).
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        return [_raiser(_translate_sqlite(error)) for _ in operations]
    return outcomes


def _run_one(raw: sqlite3.Connection, connection: Connection, operation: Operation[Any]) -> Outcome:
    raw.execute("SAVEPOINT operation")
    try:
        value = operation(connection)
    except Exception as error:
        if not raw.in_transaction:
            # The whole group is gone; whoever ran before this one must not be acknowledged.
            raise
        raw.execute("ROLLBACK TO operation")
        raw.execute("RELEASE operation")
        return _raiser(_translate_sqlite(error))
    raw.execute("RELEASE operation")
    return lambda: value


def read_now(engine: Engine, operation: Operation[T]) -> T:
    """Run a read in the calling thread; `engine` gives connections that cannot write."""
    try:
        with engine.connect() as connection:
            raw = connection.connection.dbapi_connection
            assert isinstance(raw, sqlite3.Connection)
            raw.execute("BEGIN")
            try:
                return operation(connection)
            finally:
                raw.execute("ROLLBACK")
    except StopIteration as error:
        raise RuntimeError(repr(error)) from error
    except Exception as error:
        raise _translate_sqlite(error) from None


def _raiser(error: Exception) -> Outcome:
    def outcome() -> Any:
        raise error

    return outcome


def _translate_sqlite(error: Exception) -> Exception:
    if isinstance(error, sqlite3.Error):
        return StoreError(f"the database refused: {error}")
    return translate(error)


def _make_private(path: Path) -> None:
    """SQLite gives the -wal and -shm files the permissions of the database itself."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _use_wal(raw: sqlite3.Connection) -> None:
    """Changing a new file to WAL does not wait for others that do the same: try again."""
    for tries_left in reversed(range(_WAL_TRIES_MAX)):
        try:
            raw.execute("PRAGMA journal_mode = WAL").close()
            return
        except sqlite3.OperationalError:
            if not tries_left:
                raise
            # This does wait, until the other is done.
            raw.execute("BEGIN IMMEDIATE")
            raw.execute("COMMIT")


def _engine(path: Path, synchronous: Synchronous, *, query_only: bool = False) -> Engine:
    """An engine with connections of its own, and the statements that any other has compiled."""
    engine = copy(_compiling())
    # Whoever listens to one engine does not listen to all of them.
    engine.__dict__.pop("dispatch", None)

    def connect() -> Any:
        # Without an isolation level, as AUTOCOMMIT is for this driver.
        return sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)

    engine.url = engine.url.set(database=str(path))
    engine.pool = QueuePool(connect, dialect=engine.dialect)

    @event.listens_for(engine.pool, "connect")
    def prepare(raw: sqlite3.Connection, _: object) -> None:
        _use_wal(raw)
        # Whether it may write is said once: to change it makes SQLite prepare every statement anew,
        # which took twice as long as a small read itself.
        only = f"query_only = {'ON' if query_only else 'OFF'}"
        for pragma in (f"synchronous = {synchronous}", "foreign_keys = ON", only):
            raw.execute(f"PRAGMA {pragma}").close()

    return engine


@functools.cache
def _compiling() -> Engine:
    """What all engines share: the dialect, and with it the statements that were compiled for it.

    A compiled statement belongs to its dialect, whatever the file. So the readers of a file need
    not compile what its writer has, nor a second file what the first one has: a simulated process
    that is started again, or a test, spent a fifth of its time on that.
    """
    # AUTOCOMMIT keeps SQLAlchemy from opening transactions: this module opens them, IMMEDIATE.
    engine = create_engine(
        "sqlite://",
        isolation_level="AUTOCOMMIT",
        # Values may be private, and errors are told.
        hide_parameters=True,
    )
    # The dialect learns what this SQLite can do when it first connects.
    engine.connect().close()
    engine.dispose()
    return engine
