"""The limiter: keeps what every budget has spent, where every worker sees it.

No method raises anything of a driver's: `acquire` answers Unreachable where the limiter cannot be
asked, the others raise a HeadgateError, and what they had to say is lost: counts that are told late
are told again by the next answer, and a slot that is not given back is free after its lease.
"""

from collections.abc import Mapping
from typing import Protocol

from headgate.model.budget import Answer, Budget, BudgetClosure, BudgetRequest, BudgetUse, Granted


class Limiter(Protocol):
    """What `flow/gate.py` asks of a limiter."""

    async def acquire(self, budget: Budget, request: BudgetRequest, *, grant_id: str) -> Answer:
        """Count the request in every window and take a slot, or refuse and count nothing."""
        ...

    async def charge(self, budget: Budget, request: BudgetRequest, *, times: int) -> None:
        """Count requests that were sent while the limiter could not be asked."""
        ...

    async def release(self, budget: Budget, request: BudgetRequest, grant: Granted) -> None:
        """Give the grant's slot back."""
        ...

    async def observe(
        self, budget: Budget, request: BudgetRequest, grant: Granted, counts: Mapping[str, int]
    ) -> None:
        """Learn the provider's own counts, by the limit's name."""
        ...

    async def close_budget(
        self, budget: Budget, request: BudgetRequest, *, retry_after_s: float | None
    ) -> BudgetClosure:
        """The provider said 429: close the budget for everybody; for how long."""
        ...

    async def use(self, budget: Budget, *, connection_id: str | None) -> BudgetUse:
        """How the budget stands."""
        ...

    async def close(self) -> None:
        """Let go of its connections; safe to call twice."""
        ...
