"""The rescue of rows whose worker was lost, in batches, for all leased types."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from headgate.model.lease import AnyChange, Row
from headgate.ports.leases import Leases

#: The most rows in one transaction.
BATCH_MAX = 200
#: The most rounds in one sweep; then other work gets a turn.
ROUNDS_MAX = 50


async def rescue_expired(
    leases: Leases[Row, AnyChange, Any],
    rescue: Callable[[Row], AnyChange],
    rescued: Callable[[Row], None] = lambda row: None,
) -> int:
    """Rescue rows of lost workers with the change that `rescue` makes; returns how many.

    `rescued` is called with each row after that.
    """
    return await settle_in_rounds(
        leases, lambda: leases.list_expired(limit=BATCH_MAX), rescue, rescued
    )


async def settle_in_rounds(
    leases: Leases[Row, AnyChange, Any],
    find_rows: Callable[[], Awaitable[Sequence[Row]]],
    make_change: Callable[[Row], AnyChange],
    changed: Callable[[Row], None] = lambda row: None,
) -> int:
    """Change the rows that `find_rows` finds, in batches; returns how many were changed.

    `changed` is called with each row after that.
    """
    total = 0
    for _ in range(ROUNDS_MAX):
        found = await find_rows()
        if found:
            settled = await leases.settle_many([(make_change(row), None) for row in found])
            for row in settled:
                if row is not None:
                    changed(row)
                    total += 1
        if len(found) < BATCH_MAX:
            break
    return total
