"""The limiter: it counts what every budget has spent, for all workers together.

No method raises a driver's error. `acquire` returns Unreachable if the limiter does not answer; the
other methods raise a HeadgateError, and their report is lost. That is safe: the next response
reports the provider's counts again, and a slot that is not released is free after its lease.
"""

from collections.abc import Mapping
from typing import Protocol

from headgate.model.budget import Answer, Budget, BudgetClosure, BudgetRequest, BudgetUse, Granted


class Limiter(Protocol):
    """A limiter, as `flow/gate.py` uses it."""

    async def acquire(self, budget: Budget, request: BudgetRequest, *, grant_id: str) -> Answer:
        """Count the request in every window and take a slot, or refuse and count nothing."""
        ...

    async def charge(self, budget: Budget, request: BudgetRequest, *, times: int) -> None:
        """Count requests that were sent while the limiter was unreachable."""
        ...

    async def release(self, budget: Budget, request: BudgetRequest, grant: Granted) -> None:
        """Release the slot of the grant."""
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
