"""The SQLite database: one writer, many readers, group commit.

All writes of a process go through one connection. While one transaction is made durable, the next
writes queue up; then they run together, each under its own savepoint, and are acknowledged after
one fsync. One writer also avoids SQLite's WAL-reset bug (before 3.51.3), which needs two
connections that write or checkpoint at once.
"""

import asyncio
import functools
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
from headgate.base.errors import DiskReadOnly, StoreError, StoreFault
from headgate.store.sql.database import Database, Operation, fault_kind, translate
from headgate.store.sql.moment import StoreTime
from headgate.store.sql.sqlite_file import SqliteFile

T = TypeVar("T")

#: The most waiting writes that are made durable together.
GROUP_MAX = 512
#: How long to wait for another process that has the file's write lock.
BUSY_S = 10.0
_WAL_TRIES_MAX = 100
#: The most concurrent reads.
READERS = 4

Synchronous = Literal["FULL", "OFF"]


class _FileDatabase(Database):
    """What both SQLite databases have: a file, and connections that write and that only read."""

    embedded = True
    writes_at_once = 1

    def __init__(self, path: Path, clock: Clock, synchronous: Synchronous) -> None:
        super().__init__(StoreTime(clock, server=False))
        self.path = path
        self.address = f"sqlite:///{path.absolute()}"
        self._clock = clock
        self._file = SqliteFile(path)
        self._engine = _engine(path, synchronous)
        self._reading = _engine(path, synchronous, query_only=True)
        self.dialect = self._engine.dialect

    def find_fault(self) -> StoreFault | None:
        """What is wrong with the disk or the file now, or was a short while ago."""
        return self._file.find_fault() or super().find_fault()

    async def migrate(self, operation: Operation[T]) -> T:
        """Run as a normal write: BEGIN IMMEDIATE excludes all other writers."""
        return await self.write(operation)


class SqliteDatabase(_FileDatabase):
    """A SQLite file with its own writer thread."""

    def __init__(self, path: Path, clock: Clock, *, synchronous: Synchronous = "FULL") -> None:
        """Use the file at `path`; FULL survives a power cut, OFF only a crash (for simulation)."""
        super().__init__(path, clock, synchronous)
        self._writer: _Writer | None = None
        self._readers: ThreadPoolExecutor | None = None

    def exists(self) -> bool:
        """Whether the file is there; an empty one is no database yet."""
        try:
            return self.path.stat().st_size > 0
        except OSError:
            return False

    async def open(self) -> None:
        """Create the file, readable by its owner alone, and start the writer."""
        if self._writer is None:
            self._file.create()
            writer = _Writer(self._engine, self._file)
            try:
                await writer.start()
            except BaseException:
                await writer.stop()
                self._engine.dispose()
                raise
            self._writer = writer
            self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="headgate-read")

    async def close(self) -> None:
        """Let the writer finish all queued writes, and disconnect."""
        writer, readers = self._writer, self._readers
        self._writer = self._readers = None
        if writer is not None and readers is not None:
            await writer.stop()
            readers.shutdown()
            self._reading.dispose()
            self._engine.dispose()

    async def write(self, operation: Operation[T]) -> T:
        """Run in the next group commit."""
        if self._writer is None:
            raise StoreError("the database is not open")
        try:
            return await self._writer.submit(operation)
        except StoreFault as fault:
            self.note_fault(fault)
            raise

    async def read(self, operation: Operation[T]) -> T:
        """Run on a reader's connection, which sees what was committed before it began."""
        if self._readers is None:
            raise StoreError("the database is not open")
        loop = asyncio.get_running_loop()
        run = functools.partial(read_now, self._reading, self._file, operation)
        try:
            return await loop.run_in_executor(self._readers, run)
        except StoreFault as fault:
            self.note_fault(fault)
            raise

    async def foreign_commits(self) -> int:
        """A number that changes when another process has committed to the file."""
        return await self.write(
            lambda tx: int(tx.exec_driver_sql("PRAGMA data_version").scalar_one())
        )


class InlineSqliteDatabase(_FileDatabase):
    """A SQLite file without threads, so that a simulation decides the order of all operations.

    Before the operation, and after it took effect but before its caller knows, the clock sleeps for
    zero seconds: there another task may run, or this one may crash.
    """

    def __init__(self, path: Path, clock: Clock, *, synchronous: Synchronous = "OFF") -> None:
        """Use the file at `path`."""
        super().__init__(path, clock, synchronous)
        self._connection: Connection | None = None

    async def open(self) -> None:
        """Connect."""
        if self._connection is None:
            self._file.create()
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
        [outcome] = _run_group(self._connection, self._file, [operation])
        await self._clock.sleep(0)
        try:
            value: T = outcome()
        except StoreFault as fault:
            self.note_fault(fault)
            raise
        return value

    async def read(self, operation: Operation[T]) -> T:
        """Run at once, between two points where others may run."""
        await self._clock.sleep(0)
        value = read_now(self._reading, self._file, operation)
        await self._clock.sleep(0)
        return value


Outcome = Callable[[], Any]
_Request = tuple[Operation[Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class _Writer:
    """The one thread that writes."""

    def __init__(self, engine: Engine, file: SqliteFile) -> None:
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
        with connection:
            while group := self._next_group():
                operations = [operation for operation, _, _ in group]
                outcomes = _run_group(connection, self._file, operations)
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


def _run_group(
    connection: Connection, file: SqliteFile, operations: list[Operation[Any]]
) -> list[Outcome]:
    """Run the operations in one transaction; an operation that raises is undone alone.

    Nothing is acknowledged unless the COMMIT succeeded, in the file that others find too.
    """
    raw = connection.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    try:
        raw.execute("BEGIN IMMEDIATE")
        outcomes = [_run_one(raw, connection, operation) for operation in operations]
        raw.execute("COMMIT")
        file.check()
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
            # SQLite rolled back the whole group, so no operation of it may be acknowledged.
            raise
        raw.execute("ROLLBACK TO operation")
        raw.execute("RELEASE operation")
        return _raiser(_translate_sqlite(error))
    raw.execute("RELEASE operation")
    return lambda: value


def read_now(engine: Engine, file: SqliteFile, operation: Operation[T]) -> T:
    """Run a read in the calling thread; the connections of `engine` cannot write."""
    try:
        file.check()
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
        ours = _translate_sqlite(error)
        # It is this connection that must not write: that says nothing about the disk.
        raise StoreError(str(ours)) if isinstance(ours, DiskReadOnly) else ours from None


def _raiser(error: Exception) -> Outcome:
    def outcome() -> Any:
        raise error

    return outcome


def _translate_sqlite(error: Exception) -> Exception:
    if isinstance(error, sqlite3.Error):
        return (fault_kind(error) or StoreError)(f"the database refused: {error}")
    return translate(error)


def _use_wal(raw: sqlite3.Connection) -> None:
    """Set WAL mode; on a new file this fails if another process does the same, so it is retried."""
    for tries_left in reversed(range(_WAL_TRIES_MAX)):
        try:
            raw.execute("PRAGMA journal_mode = WAL").close()
            return
        except sqlite3.OperationalError:
            if not tries_left:
                raise
            # BEGIN IMMEDIATE waits until the other process is done.
            raw.execute("BEGIN IMMEDIATE")
            raw.execute("COMMIT")


def _engine(path: Path, synchronous: Synchronous, *, query_only: bool = False) -> Engine:
    """An engine with its own connections, which shares compiled statements with all others."""
    engine = copy(_compiling())
    # A listener of one engine must not listen to all of them.
    engine.__dict__.pop("dispatch", None)

    def connect() -> Any:
        # No isolation level means AUTOCOMMIT for this driver.
        return sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)

    engine.url = engine.url.set(database=str(path))
    engine.pool = QueuePool(connect, dialect=engine.dialect)

    @event.listens_for(engine.pool, "connect")
    def prepare(raw: sqlite3.Connection, _: object) -> None:
        _use_wal(raw)
        # Set once per connection: a change makes SQLite prepare every statement again, which took
        # twice as long as a small read itself.
        only = f"query_only = {'ON' if query_only else 'OFF'}"
        for pragma in (f"synchronous = {synchronous}", "foreign_keys = ON", only):
            raw.execute(f"PRAGMA {pragma}").close()

    return engine


@functools.cache
def _compiling() -> Engine:
    """The engine whose dialect, and so whose compiled statements, all engines share.

    A compiled statement belongs to its dialect, not to a file. So the readers of a file need not
    compile what its writer has compiled, nor a second file what the first has: restarted processes
    of a simulation, and tests, spent a fifth of their time on that.
    """
    # AUTOCOMMIT keeps SQLAlchemy from opening transactions: this module opens them, IMMEDIATE.
    engine = create_engine(
        "sqlite://",
        isolation_level="AUTOCOMMIT",
        # Errors are logged, and values may be private.
        hide_parameters=True,
    )
    # The dialect detects the features of this SQLite when it first connects.
    engine.connect().close()
    engine.dispose()
    return engine
