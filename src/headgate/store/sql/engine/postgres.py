"""The Postgres database: a connection pool, operations on the async driver, retried conflicts."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from sqlalchemy import URL, Connection, Engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.util import greenlet_spawn

from headgate.base.clock import Clock
from headgate.base.encoding import from_json, to_json
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.store.sql.engine.database import (
    LOCK_NOT_AVAILABLE,
    Database,
    Operation,
    sqlstate,
    translate,
)
from headgate.store.sql.engine.moment import StoreTime

T = TypeVar("T")

#: Deadlock, serialization failure and lock timeout: the transaction did nothing, and the whole of
#: it may run again.
_CONFLICTS = ("40001", "40P01", LOCK_NOT_AVAILABLE)
CONFLICT_RETRIES_MAX = 5
#: An operation is a few statements on indexes; one that takes longer is stuck.
STATEMENT_S_MAX = 60
#: How long a worker that is frozen in a transaction keeps its locks; then its transaction is ended,
#: and the worker notices when it wakes.
SILENT_S_MAX = 10
#: How long a statement waits for a lock before it checks whether a frozen worker has it.
LOCK_S_MAX = 5
_NAME = "headgate"
#: The key of the advisory lock that lets one process migrate at a time.
_MIGRATION_LOCK = 0x4865616467617465


#: Ends our own sessions with an open transaction for which the server waits on the client: for its
#: next message, or, longer than a client waits for a statement, for it to read a result. A session
#: at work waits for no client. Sessions of other roles are left alone.
_END_SILENT = text(
    # Materialized, so that no session is ended before all conditions are evaluated.
    "WITH silent AS MATERIALIZED (SELECT pid FROM pg_stat_activity"
    " WHERE datname = current_database() AND usename = session_user"
    " AND application_name = :name AND pid <> pg_backend_pid()"
    " AND xact_start IS NOT NULL AND wait_event IN ('ClientRead', 'ClientWrite')"
    " AND state_change < clock_timestamp() - make_interval("
    "secs => CASE wait_event WHEN 'ClientRead' THEN 0 ELSE :statement_s END + :silent_s))"
    " SELECT pg_terminate_backend(pid) FROM silent"
)
#: What a session asks for when it connects. A pooler between has to let these pass: the guide to
#: production lists them.
SESSION_SETTINGS = {
    "jit": "off",
    # Our statements ask what an index answers. While a table is empty, to scan all of it looks
    # better, and Postgres keeps a plan that it made then while the table fills.
    "enable_seqscan": "off",
    # The pool hands out the connection that was used last, so others may be silent for hours, and
    # what stands between would forget them.
    "tcp_keepalives_idle": "60",
}
_WAIT_FOR_LOCKS = text("SELECT set_config('lock_timeout', :wait, true)")

_log = get_logger(__name__)


class PostgresDatabase(Database):
    """A Postgres database, through asyncpg."""

    embedded = False
    writes_at_once = 2

    def __init__(
        self,
        url: str,
        clock: Clock,
        *,
        pool_size: int = 10,
        server_time: bool = True,
        silent_s: float = SILENT_S_MAX,
        lock_s: float = LOCK_S_MAX,
    ) -> None:
        """Connect to `url`. Tests under a virtual clock set `server_time` to False."""
        super().__init__(StoreTime(clock, server=server_time))
        self._silent_s = silent_s
        self._lock_s = lock_s
        self.url = make_url(url).set(drivername="postgresql+asyncpg")
        # Without the password, and without the options, which may hold it too.
        name, host, port = self.url.username, self.url.host, self.url.port
        shown = URL.create("postgresql", name, None, host, port, self.url.database)
        self.address = shown.render_as_string()
        self._engine = self._make_engine(pool_size, statement_s=STATEMENT_S_MAX)
        #: On the same pool.
        self._autocommitting = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        self.dialect = self._engine.dialect

    def _make_engine(self, pool_size: int, *, statement_s: float | None) -> AsyncEngine:
        """A connection pool whose statements may take `statement_s`."""
        settings = {
            "application_name": _NAME,
            "idle_in_transaction_session_timeout": f"{self._silent_s * 1000:.0f}ms",
            "lock_timeout": f"{self._lock_s * 1000:.0f}ms",
            **SESSION_SETTINGS,
        }
        return create_async_engine(
            self.url,
            pool_size=pool_size,
            max_overflow=0,
            # The connection that was used last: Postgres plans a statement anew the first five
            # times that a connection runs it, and to plan a claim takes longer than to run it.
            pool_use_lifo=True,
            pool_timeout=STATEMENT_S_MAX,
            # No ping before every use: an operation on a dead connection raises, the whole pool is
            # replaced, and the caller, which has to handle outages anyway, tries again.
            pool_pre_ping=False,
            # Errors are logged, and values may be private.
            hide_parameters=True,
            json_serializer=to_json,
            json_deserializer=from_json,
            connect_args={"command_timeout": statement_s, "server_settings": settings},
        )

    @property
    def dsn(self) -> str:
        """The address in the driver's own form, with the password."""
        return self.url.set(drivername="postgresql").render_as_string(hide_password=False)

    @property
    def sync_engine(self) -> Engine:
        """The engine under the async one, for listening to its statements."""
        return self._engine.sync_engine

    async def open(self) -> None:
        """Connect once, so that a wrong address is reported at once."""
        await self.read(lambda tx: tx.execute(text("SELECT 1")))

    async def close(self) -> None:
        await self._engine.dispose()

    async def write(self, operation: Operation[T]) -> T:
        """Run in one transaction, again if it lost a conflict with another transaction."""
        return await self._run(self._engine.sync_engine.begin, operation)

    async def read(self, operation: Operation[T]) -> T:
        return await self._run(self._engine.sync_engine.connect, operation)

    async def autocommit(self, operation: Operation[T], *, read_only: bool = False) -> T:
        """Run without a transaction around it."""
        return await self._run(self._autocommitting.sync_engine.connect, operation)

    async def _run(
        self,
        begin: Callable[[], AbstractContextManager[Connection]],
        operation: Operation[T],
    ) -> T:
        # One greenlet from the pool and back: the async engine makes three, for a fifth more time.
        def run() -> T:
            with begin() as connection:
                return operation(connection)

        for tries_left in reversed(range(CONFLICT_RETRIES_MAX)):
            try:
                return await greenlet_spawn(run)
            except Exception as error:
                if not (tries_left and _is_conflict(error)):
                    # Not `from error`: a driver's error quotes the row that was refused.
                    raise self.note_fault(translate(error)) from None
                if _is_lock_timeout(error):
                    await self.free_locks()
        raise AssertionError("unreachable")

    async def free_locks(self) -> int:
        """End the sessions of frozen workers, which keep their locks while they are frozen.

        Postgres itself ends a session that is idle in a transaction. A session that was frozen
        between the messages of a statement, or while it reads a result, counts as active, and no
        timeout for statements or locks ends it (`transaction_timeout`, from Postgres 17 on, would,
        but it also ends long legitimate work). So it is ended from here: by a statement that has
        waited `LOCK_S_MAX` for a lock, and by every sweep. A failure is only logged, because the
        caller can go on without it.
        """
        binds = {"name": _NAME, "silent_s": self._silent_s, "statement_s": STATEMENT_S_MAX}
        try:
            async with self._autocommitting.connect() as connection:
                ended = len((await connection.execute(_END_SILENT, binds)).all())
        except Exception as error:
            _log.warning(LogEvent.LOCKS_NOT_FREED, error=describe_error(translate(error)))
            return 0
        if ended:
            _log.warning(LogEvent.LOCKS_FREED, sessions=ended)
        return ended

    async def migrate(self, operation: Operation[T]) -> T:
        """Wait for any other migration, then run without a time limit."""

        def alone(tx: Connection) -> T:
            # Wait for another migration without a limit, but for table locks with the usual one.
            tx.execute(_WAIT_FOR_LOCKS, {"wait": "0"})
            tx.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
            tx.execute(_WAIT_FOR_LOCKS, {"wait": f"{self._lock_s * 1000:.0f}ms"})
            # A migration may well read a whole table.
            tx.execute(text("SET LOCAL enable_seqscan = on"))
            return operation(tx)

        # An index on a large table may take long to build.
        migrating = self._make_engine(1, statement_s=None)
        try:
            return await self._run(migrating.sync_engine.begin, alone)
        finally:
            await migrating.dispose()


def _is_conflict(error: Exception) -> bool:
    return isinstance(error, DBAPIError) and sqlstate(error) in _CONFLICTS


def _is_lock_timeout(error: Exception) -> bool:
    return isinstance(error, DBAPIError) and sqlstate(error) == LOCK_NOT_AVAILABLE
