"""The use of the budgets that an application declares."""

from collections.abc import Sequence
from datetime import timedelta

from headgate.base.errors import LimiterUnreachable, NotFound
from headgate.flow.runtime import Runtime
from headgate.model.budget import BudgetUse

#: When to ask again if the limiter does not answer.
RETRY_AFTER = timedelta(seconds=30)


class Budgets:
    """The declared budgets, each by its provider's name."""

    def __init__(self, rt: Runtime) -> None:
        """Use the runtime of the application."""
        self._rt = rt

    async def use(
        self, source: str | None = None, *, connection_id: str | None = None
    ) -> Sequence[BudgetUse]:
        """The use of all budgets, or of one provider's; with a connection, its own limits too.

        Raises LimiterUnreachable if the limiter does not answer.
        """
        sources = self._rt.registry.budgets if source is None else [source]
        uses = []
        for each in sources:
            found = await self.find(each, connection_id=connection_id)
            if found is None:
                raise LimiterUnreachable(RETRY_AFTER)
            uses.append(found)
        return uses

    async def find(self, source: str, *, connection_id: str | None = None) -> BudgetUse | None:
        """The use of one provider's budget; None if the limiter does not answer."""
        declared = self._rt.registry.budgets
        if source not in declared:
            names = ", ".join(sorted(declared)) or "none"
            raise NotFound(f"no budget is declared for {source!r}; declared: {names}")
        return await self._rt.gates.use(declared[source], connection_id=connection_id)
