"""The SQLite database: one writer and many readers in each process."""

import asyncio
import functools
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from pathlib import Path
from typing import Any, Literal, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from headgate.base.clock import Clock
from headgate.base.errors import FaultKind, StoreError, StoreFault
from headgate.store.sql.engine.database import Database, Operation
from headgate.store.sql.engine.moment import StoreTime
from headgate.store.sql.engine.sqlite_file import SqliteFile
from headgate.store.sql.engine.sqlite_writer import (
    SqliteWriter,
    raw_connection,
    run_group,
    translate_sqlite,
)

T = TypeVar("T")

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
        self._writer: SqliteWriter | None = None
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
            writer = SqliteWriter(self._engine, self._file)
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
        if self._connection is None:
            self._file.create()
            self._connection = self._engine.connect()

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._reading.dispose()
            self._engine.dispose()

    async def write(self, operation: Operation[T]) -> T:
        """Run at once, between two points where others may run."""
        await self._clock.sleep(0)
        assert self._connection is not None
        [outcome] = run_group(self._connection, self._file, [operation])
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


def read_now(engine: Engine, file: SqliteFile, operation: Operation[T]) -> T:
    """Run a read in the calling thread; the connections of `engine` cannot write."""
    try:
        file.check()
        with engine.connect() as connection:
            raw = raw_connection(connection)
            raw.execute("BEGIN")
            try:
                return operation(connection)
            finally:
                raw.execute("ROLLBACK")
    except StopIteration as error:
        raise RuntimeError(repr(error)) from error
    except Exception as error:
        ours = translate_sqlite(error)
        # It is this connection that must not write: that says nothing about the disk.
        if isinstance(ours, StoreFault) and ours.kind is FaultKind.DISK_READ_ONLY:
            ours = StoreError(str(ours))
        raise ours from None


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
        # The writer makes checkpoints itself, while nobody commits.
        own = "wal_autocheckpoint = 0"
        for pragma in (f"synchronous = {synchronous}", "foreign_keys = ON", own, only):
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
