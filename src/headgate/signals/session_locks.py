"""The locks of workers on Postgres: an advisory lock for each, on the session that hears of hints.

The server frees the lock when the session ends. A session may also end while its process lives, as
when the server restarts; then the worker connects again and takes its lock anew. So a worker has
died only if its lock was free at two looks of one session, so far apart that it would have been
back. After a session of its own was lost it waits longer, because the others' may be lost as well,
and a server that restarts answers slowly. The locks are shared ones: a worker that is back need not
wait until the server has noticed the end of its old session.
"""

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import asyncpg

from headgate.base.clock import Clock
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent

#: The first number of the key of every such lock; the second stands for the worker.
LOCK_CLASS = 0x48656164
#: A worker whose lock is free for so long has died: longer than a lost session takes to replace.
PATIENCE_S = 5.0
#: The same after a session of our own was lost and replaced, and for how long that counts.
LONG_PATIENCE_S = 15.0
AFTER_LOSS_S = 60.0

_TAKE = "SELECT pg_advisory_lock_shared($1, $2)"
_FREE = "SELECT pg_advisory_unlock_shared($1, $2)"
_PID = "SELECT pg_backend_pid()"
#: The keys of all locks that are held now, and whether by this session.
_HELD = (
    "SELECT objid::bigint AS key, bool_or(pid = pg_backend_pid()) AS own FROM pg_locks"
    " WHERE locktype = 'advisory' AND classid::bigint = $1 AND objsubid = 2 AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " GROUP BY objid"
)

_log = get_logger(__name__)


class SessionLocks:
    """The lock of this process and the looks at those of others, on one session at a time."""

    def __init__(self, clock: Clock) -> None:
        """Begin without a lock; `clock` measures the time between looks."""
        self._clock = clock
        self._worker: str | None = None
        #: Since when a lock was found free, by worker, as this session saw it.
        self._free_since_s: dict[str, float] = {}
        #: Whether this session has the lock.
        self.held = False
        #: Whether a session that had the lock was lost, and when one that has it followed.
        self._lost = False
        self._back_s = -math.inf

    def lose_session(self) -> None:
        """Forget what the last session held and saw."""
        self._lost = self._lost or self.held
        self.held = False
        self._free_since_s.clear()

    def name_worker(self, worker: str) -> None:
        """Say whose lock is taken from now on."""
        self._worker = worker

    async def take(self, connection: "asyncpg.Connection[Any]") -> None:
        """Take the worker's lock on a session, if there is a worker.

        Behind a pooler that gives each transaction another session, a lock says nothing. So the
        session must be the one that the server named when it was connected to, and have the lock.
        """
        if self._worker is None or self.held:
            return
        if await connection.fetchval(_PID) != connection.get_server_pid():
            _log.warning(LogEvent.LIVENESS_UNKNOWN, error="the database is behind a pooler")
            return
        key = key_of(self._worker)
        await connection.execute(_TAKE, _signed(LOCK_CLASS), _signed(key))
        self.held = (await _read_held(connection)).get(key, False)
        if self.held and self._lost:
            # Counted from now, not from the loss: after a long outage all come back at this moment.
            self._lost, self._back_s = False, self._clock.monotonic()

    async def free(self, connection: "asyncpg.Connection[Any]") -> None:
        """Free the lock."""
        if self.held and self._worker is not None:
            self.held = False
            await connection.execute(_FREE, _signed(LOCK_CLASS), _signed(key_of(self._worker)))
        self._worker = None

    async def find_dead(
        self, connection: "asyncpg.Connection[Any]", workers: Sequence[str]
    ) -> Sequence[str]:
        """Those of these workers whose locks were free at all looks for long enough."""
        if not self.held:
            # It cannot be told here what a free lock means.
            return ()
        held = await _read_held(connection)
        now_s = self._clock.monotonic()
        self._free_since_s = {
            worker: self._free_since_s.get(worker, now_s)
            for worker in workers
            if key_of(worker) not in held
        }
        patience_s = LONG_PATIENCE_S if now_s - self._back_s < AFTER_LOSS_S else PATIENCE_S
        return [
            worker
            for worker, since_s in self._free_since_s.items()
            if now_s - since_s >= patience_s
        ]


def key_of(worker: str) -> int:
    """The second number of a worker's key. If two workers share it, one hides the other's death."""
    return int.from_bytes(hashlib.sha256(worker.encode()).digest()[:4])


async def _read_held(connection: "asyncpg.Connection[Any]") -> dict[int, bool]:
    return {row["key"]: row["own"] for row in await connection.fetch(_HELD, LOCK_CLASS)}


def _signed(number: int) -> int:
    """The number as Postgres's `integer` has it, with the same 32 bits."""
    return number - (1 << 32) if number >= 1 << 31 else number
