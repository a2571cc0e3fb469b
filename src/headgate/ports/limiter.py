"""The limiter: it counts what every budget has spent, for all workers together.

No method raises a driver's error. `acquire` returns Unreachable if the limiter does not answer; the
other methods raise a HeadgateError, and their report is lost. That is safe: the next response
reports the provider's counts again, and a slot that is not released is free after its lease.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from headgate.model.budget import (
    Answer,
    Budget,
    BudgetClosure,
    BudgetRequest,
    BudgetUse,
    Granted,
    Ledger,
    Scope,
)
from headgate.policy.headroom import Headroom, Shortage


class Limiter(Protocol):
    """A limiter, as `flow/budget/gate.py` uses it."""

    async def acquire(self, budget: Budget, request: BudgetRequest, *, grant_id: str) -> Answer:
        """Count the request in every window and take a slot, or refuse and count nothing."""
        ...

    async def charge(self, budget: Budget, request: BudgetRequest, *, times: int) -> None:
        """Count requests that were sent while the limiter was unreachable."""
        ...

    async def release(self, budget: Budget, request: BudgetRequest, grant: Granted) -> None:
        """Release the slot of a request that has ended, and count it again if it was late.

        A request that ends in a later window than that of its grant may have arrived there. If the
        budget has no slots, this need not be called for a request that was not late.
        """
        ...

    async def observe(
        self, budget: Budget, request: BudgetRequest, grant: Granted, counts: Mapping[str, int]
    ) -> None:
        """Take over the provider's own counts, by the limit's name."""
        ...

    async def close_budget(
        self,
        budget: Budget,
        request: BudgetRequest,
        *,
        retry_after_s: float | None,
        limit: str | None = None,
    ) -> BudgetClosure:
        """Close the budget for everybody, because the provider answered 429; returns how long.

        `limit` is the name of the limit that is spent, if the provider says it.
        """
        ...

    async def use(self, budget: Budget, *, connection_id: str | None) -> BudgetUse:
        """The use of the budget."""
        ...

    async def close(self) -> None:
        """Close the network connections; safe to call twice."""
        ...


class LimiterMemory(Protocol):
    """What the database keeps for a limiter elsewhere, which can lose its counts."""

    async def has_begun(self) -> bool:
        """Whether the limiter has ever counted requests."""
        ...

    async def note_begun(self) -> None:
        """Store that the limiter counts requests from now on."""
        ...

    async def extend(
        self, budget: Budget, connection_id: str, lacking: Sequence[Shortage], *, at_ms: int
    ) -> Sequence[Headroom]:
        """Store that more requests may be granted, by the limiter's clock, before they are."""
        ...

    async def count_429(
        self, budget: Budget, connection_id: str, scope: Scope, *, at_ms: int
    ) -> None:
        """Count an answer with 429."""
        ...

    async def ledgers(self, budget: Budget, connection_id: str | None) -> Mapping[Scope, Ledger]:
        """The database's own ledgers of the budget; without a connection, the application's."""
        ...
