"""The store of a leased type, such as jobs or items, as the engine uses it.

Every method is one atomic, durable operation. Times are the store's own: callers pass durations,
and the store judges leases by its clock. A method that raises `StoreUnavailable` may or may not
have taken effect; calling it again with the same arguments is safe, because every write is fenced.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from headgate.model.lease import Change, Claim, LeasedRow, LeasedType

AnyRow = TypeVar("AnyRow", bound=LeasedRow)
AnyChange = TypeVar("AnyChange", bound=Change[Any], contravariant=True)
Payload = TypeVar("Payload", contravariant=True)


class Leases(Protocol[AnyRow, AnyChange, Payload]):
    """The rows of one leased type."""

    @property
    def kind(self) -> LeasedType[AnyRow, Any, Any]:
        """The description of the leased type."""
        ...

    async def settle(self, change: AnyChange, payload: Payload | None = None, /) -> AnyRow | None:
        """Apply a change and store its payload, in one transaction.

        Returns the row after the change, or None if the claim was lost and nothing was written.
        """
        ...

    async def settle_many(
        self, batch: Sequence[tuple[AnyChange, Payload | None]], /
    ) -> Sequence[AnyRow | None]:
        """Settle many changes in one transaction."""
        ...

    async def extend(self, claims: Sequence[Claim], /, *, lease: timedelta) -> Mapping[str, Any]:
        """Extend the leases of these claims; returns the states of the rows still so claimed."""
        ...

    async def list_expired(self, *, limit: int) -> Sequence[AnyRow]:
        """Rows whose lease, or deadline to cancel, has passed."""
        ...

    async def expire(self, worker: str, /) -> int:
        """Let the leases of a worker that has died expire now; returns how many."""
        ...

    async def next_sweep_s(self) -> float | None:
        """Seconds until a rescuer may have work; None if nothing is due."""
        ...

    async def get(self, row_id: str, /, *, user_id: str | None = None) -> AnyRow:
        """The row; NotFound if it does not exist or belongs to another user."""
        ...
