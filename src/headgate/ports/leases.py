"""What the engine asks of a store for every leased type: jobs, items, and whatever comes.

Every method is one atomic, durable operation. Times are the store's own: a wait is given as a
duration, a lease is judged where it is kept. A method that raises `StoreUnavailable` may or may not
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
        """What there is to know of them."""
        ...

    async def settle(self, change: AnyChange, payload: Payload | None = None, /) -> AnyRow | None:
        """Apply a change and store what belongs to it, in one transaction.

        Returns the row as it became, or None where the claim was lost and nothing was written.
        """
        ...

    async def settle_many(
        self, batch: Sequence[tuple[AnyChange, Payload | None]], /
    ) -> Sequence[AnyRow | None]:
        """The same for many, all in one transaction."""
        ...

    async def extend(self, claims: Sequence[Claim], /, *, lease: timedelta) -> Mapping[str, Any]:
        """Extend the leases that still stand; the state of each row that is still claimed so."""
        ...

    async def list_expired(self, *, limit: int) -> Sequence[AnyRow]:
        """Rows whose lease, or time to let go, has run out."""
        ...

    async def next_sweep_s(self) -> float | None:
        """Seconds until there may be something for the sweeper; None when nothing is known of."""
        ...

    async def get(self, row_id: str, /, *, user_id: str | None = None) -> AnyRow:
        """The row; NotFound where there is none, or it is not that user's."""
        ...
