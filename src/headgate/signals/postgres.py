"""Signals over Postgres: LISTEN on a separate connection, NOTIFY with a commit or after it.

A NOTIFY inside a transaction makes Postgres take a database-wide lock at its commit. So a process
lets a few commits carry their hints, which saves a round trip, and sends what follows soon after
the commits, many at once: a thousand submits make a few notifies.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from headgate.base.clock import Clock
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.base.service import Service
from headgate.ports.signal import JobHint, SignalHint
from headgate.signals.local import LocalSignal
from headgate.signals.session_locks import SessionLocks
from headgate.signals.throttle import HintThrottle

CHANNEL = "headgate"
#: How often the connection is checked, because a broken one stays silent.
KEEPALIVE_S = 300.0
CONNECT_S_MAX = 10.0
#: The longest rest between two tries to connect: shorter than others wait before they take a worker
#: without a session for dead.
CONNECT_REST_S_MAX = 2.0
ANSWER_S_MAX = 10.0
#: What a connection that is lost, or is being lost, raises.
_LOST = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)

_log = get_logger(__name__)


class PostgresSignal(LocalSignal):
    """Signals within this process at once, and to other processes over LISTEN/NOTIFY."""

    def __init__(self, dsn: str, clock: Clock, *, origin: str) -> None:
        """Connect to `dsn`; `origin` names this process, so that it ignores its own notifies."""
        super().__init__()
        self._listener = _Listener(dsn, clock, origin, self)
        self.liveness = self._listener

    async def start(self) -> None:
        """Connect and listen; a broken connection is replaced in the background."""
        await self._listener.connect()
        await self._listener.start()

    async def stop(self) -> None:
        """Send the waiting hints and disconnect."""
        await self._listener.stop()
        await self._listener.disconnect()

    def hint(self, topic: str) -> SignalHint | None:
        """The hint for a commit, as often as the throttle lets one pass."""
        return self._listener.hint(topic)

    async def announce(
        self, topic: str, due: Sequence[JobHint] = (), *, sent: bool = False
    ) -> None:
        """Nudge the listeners of this process now, and those of all others soon."""
        self.nudge(topic)
        if not sent:
            self._listener.send(topic)


class _Listener(Service):
    """The LISTEN connection: keeps it open, sends the waiting hints, and has the worker's lock."""

    name = "postgres-signal"
    failure_rest_s_max = CONNECT_REST_S_MAX

    def __init__(self, dsn: str, clock: Clock, origin: str, local: LocalSignal) -> None:
        super().__init__(clock)
        self._dsn = dsn
        self._origin = origin
        self._local = local
        self._waiting: set[str] = set()
        #: Counts the hints that are sent by commits, and those after them.
        self._throttle = HintThrottle()
        self._connection: asyncpg.Connection[Any] | None = None
        self._locks = SessionLocks(clock)
        #: A connection runs one statement at a time.
        self._one_at_a_time = asyncio.Lock()

    def hint(self, topic: str) -> SignalHint | None:
        """The hint for a commit; None if many were sent a moment ago, or some are waiting."""
        now_s = self._clock.monotonic()
        if self._waiting or self._throttle.wait_s(now_s) > 0:
            return None
        self._throttle.count(now_s)
        return SignalHint(CHANNEL, self._payload(topic))

    def _payload(self, topic: str) -> str:
        return f"{self._origin} {topic}"

    def send(self, topic: str) -> None:
        """Add a topic to the next notify."""
        self._waiting.add(topic)
        self.nudge()

    async def run_once(self) -> float:
        """Check the connection, and send the waiting hints."""
        if self._connection is None or self._connection.is_closed():
            await self.connect()
            # Hints may have been lost while the connection was down: nudge everybody.
            self._local.nudge_all()
        if not self._waiting:
            await self._execute("SELECT 1")
            return KEEPALIVE_S
        wait_s = self._throttle.wait_s(self._clock.monotonic())
        if wait_s > 0:
            # What comes meanwhile goes with it.
            await self._clock.sleep(wait_s)
        topics, self._waiting = sorted(self._waiting), set()
        try:
            await self._notify(topics)
        except Exception:
            self._waiting.update(topics)
            raise
        return 0.0 if self._waiting else KEEPALIVE_S

    async def connect(self) -> None:
        """Open the connection, listen, and take the worker's lock anew."""
        self._locks.lose_session()
        async with asyncio.timeout(CONNECT_S_MAX), self._one_at_a_time:
            self._connection = connection = await asyncpg.connect(
                self._dsn,
                server_settings={
                    "application_name": "headgate-signal",
                    # A hint may be lost, so nobody waits for the disk to have it.
                    "synchronous_commit": "off",
                },
            )
            try:
                await connection.add_listener(CHANNEL, self._on_notification)
                await self._locks.take(connection)
            except BaseException:
                # One that does not listen is no connection.
                connection.terminate()
                raise
        connection.add_termination_listener(lambda _: self._on_end(connection))

    def _on_end(self, connection: object) -> None:
        if connection is self._connection:
            self._locks.lose_session()
            self.nudge()

    async def disconnect(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None and not self._connection.is_closed():
            try:
                await self._notify(sorted(self._waiting))
                await self._connection.close(timeout=CONNECT_S_MAX)
            except _LOST as error:
                _log.warning(LogEvent.SIGNAL_CLOSE_FAILED, error=describe_error(error))
        self._connection = None

    async def _notify(self, topics: list[str]) -> None:
        hints = [self._payload(topic) for topic in topics]
        if hints:
            self._throttle.count(self._clock.monotonic())
            await self._execute(
                "SELECT pg_notify($1, hint) FROM unnest($2::text[]) AS hint", CHANNEL, hints
            )

    async def _execute(self, query: str, *values: object) -> None:
        async with self._session() as connection:
            await connection.execute(query, *values)

    @asynccontextmanager
    async def _session(self) -> "AsyncIterator[asyncpg.Connection[Any]]":
        """The connection, for one task at a time.

        If it does not answer in time, it is closed, and replaced later.
        """
        async with self._one_at_a_time:
            connection = self._connection
            if connection is None:
                raise ConnectionError("not connected")
            try:
                async with asyncio.timeout(ANSWER_S_MAX):
                    yield connection
            except TimeoutError:
                connection.terminate()
                raise

    # ---- liveness ------------------------------------------------------------------------------

    @property
    def held(self) -> bool:
        return self._locks.held

    async def hold(self, worker: str) -> None:
        """Hold the lock of this worker, now and whenever the connection was replaced."""
        self._locks.name_worker(worker)
        try:
            async with self._session() as connection:
                await self._locks.take(connection)
        except _LOST as error:
            _log.warning(LogEvent.LIVENESS_UNKNOWN, error=describe_error(error))

    async def release(self) -> None:
        try:
            async with self._session() as connection:
                await self._locks.free(connection)
        except _LOST:
            # The server frees it with the session.
            pass

    async def find_dead(self, workers: Sequence[str]) -> Collection[str]:
        """Those of these workers whose lock has been free for a while."""
        if not workers:
            return ()
        async with self._session() as connection:
            return await self._locks.find_dead(connection, workers)

    def _on_notification(self, _: object, __: int, ___: str, payload: object) -> None:
        origin, _, topic = str(payload).partition(" ")
        if origin != self._origin:
            self._local.nudge(topic)
