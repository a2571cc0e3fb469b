"""Settling of a change of any leased type, with retries across an outage of the store."""

from typing import Any, TypeVar

from headgate.base.clock import Clock
from headgate.base.errors import NotFound, StoreFault, StoreUnavailable
from headgate.model.lease import AnyChange, Row
from headgate.ports.leases import Leases

#: The waits between the tries while the database does not answer.
SETTLE_RESTS_S = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)

Payload = TypeVar("Payload")


async def settle_surely(
    leases: Leases[Row, AnyChange, Payload],
    clock: Clock,
    change: AnyChange,
    payload: Payload | None = None,
    *,
    uncertain: bool = False,
) -> Row | None:
    """Write the change and its payload; None if the claim was lost.

    `uncertain` says that it may have been written already, without an answer.

    A write without an answer may have taken effect. Writing again is safe, because it is fenced,
    but then it loses against itself. So the row is read to see whether the first write is there.
    With `uncertain`, the caller has made such a write already.
    """
    rests_s = iter(SETTLE_RESTS_S)
    while True:
        try:
            after = await leases.settle(change, payload)
            return await _read_if_written(leases, change) if after is None and uncertain else after
        except StoreFault:
            # It takes a person to repair a disk; the caller says so, and waits longer.
            raise
        except StoreUnavailable:
            rest_s = next(rests_s, None)
            if rest_s is None:
                raise
            uncertain = True
            await clock.sleep(rest_s)


async def _read_if_written(leases: Leases[Row, Any, Any], change: AnyChange) -> Row | None:
    try:
        row = await leases.get(change.after.id)
    except NotFound:
        return None
    return row if leases.kind.is_written(change, row) else None
