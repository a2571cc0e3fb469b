"""Safeguards of a leased type, switched off one by one, as a context each."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import msgspec
from sqlalchemy import select

from headgate.model import lease
from headgate.model.lease import Change, LeasedType, LockedRow
from headgate.store.sql.leases.port import SqlLeases
from tests.simulation.worker_locks import WorkerLocks
from tests.simulation.workload import WORKER

Switch = Callable[[], AbstractContextManager[object]]
#: So long before its end, a sweep that is too early takes a lease for over.
EARLY_S = WORKER.lease_s * 0.9

_fence_holds = lease.fence_holds


def no_token(kind: LeasedType[Any, Any, Any]) -> Switch:
    """Nobody looks at the token: a lost worker may write."""

    def holds(change: Change[Any], locked: LockedRow) -> bool:
        if type(change.before) is kind.row:
            before = msgspec.structs.replace(change.before, token=locked.token)
            change = msgspec.structs.replace(change, before=before)
        return _fence_holds(change, locked)

    return lambda: patch.object(lease, "fence_holds", holds)


def no_state(kind: LeasedType[Any, Any, Any]) -> Switch:
    """Nobody looks at the state: what has ended may be changed under the same token."""
    return lambda: patch.object(kind, "_resolve", lambda change, locked: change)


def no_expiry(port: type[SqlLeases[Any, Any, Any]]) -> Switch:
    """Nobody looks for leases that have run out."""

    async def list_expired(self: Any, *, limit: int) -> Sequence[Any]:
        return []

    # The rescuer is also kept from asking every moment for what it is never given.
    async def next_sweep_s(self: Any) -> float | None:
        return None

    return lambda: patch.multiple(port, list_expired=list_expired, next_sweep_s=next_sweep_s)


def early_expiry(port: type[SqlLeases[Any, Any, Any]]) -> Switch:
    """A sweep takes everything that is claimed, long before the leases end."""
    next_sweep_s = port.next_sweep_s

    async def list_expired(self: Any, *, limit: int) -> Sequence[Any]:
        table = self.table
        query = select(*table.columns).where(table.claimed).limit(limit)
        found: Sequence[Any] = await self.database.read(lambda tx: table.find(tx, query))
        return found

    async def too_early_s(self: Any) -> float | None:
        due_s = await next_sweep_s(self)
        return None if due_s is None else max(0.0, due_s - EARLY_S)

    return lambda: patch.multiple(port, list_expired=list_expired, next_sweep_s=too_early_s)


async def _everybody(locks: WorkerLocks, workers: Sequence[str]) -> Sequence[str]:
    return workers


def living_taken_for_dead() -> AbstractContextManager[object]:
    """Every look finds that all other workers have died."""
    return patch.object(WorkerLocks, "find_dead", _everybody)
