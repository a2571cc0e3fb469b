"""How the budgets that an application declares stand."""

from collections.abc import Sequence
from datetime import timedelta

from headgate.base.errors import LimiterUnreachable, NotFound
from headgate.flow.runtime import Runtime
from headgate.model.budget import BudgetUse

#: When to ask again for a budget whose limiter does not answer.
RETRY_AFTER = timedelta(seconds=30)


class Budgets:
    """The declared budgets, each by its provider's name."""

    def __init__(self, rt: Runtime) -> None:
        """Of the application with that runtime."""
        self._rt = rt

    async def use(
        self, source: str | None = None, *, connection_id: str | None = None
    ) -> Sequence[BudgetUse]:
        """How they stand, or that of one provider; with a connection, what is counted for it too.

        Raises LimiterUnreachable where one is not known at the moment.
        """
        wanted = self._rt.registry.budgets if source is None else [source]
        uses = []
        for each in wanted:
            found = await self.find(each, connection_id=connection_id)
            if found is None:
                raise LimiterUnreachable(RETRY_AFTER)
            uses.append(found)
        return uses

    async def find(self, source: str, *, connection_id: str | None = None) -> BudgetUse | None:
        """How that of one provider stands; None while its limiter does not answer."""
        declared = self._rt.registry.budgets
        if source not in declared:
            there_are = ", ".join(sorted(declared)) or "none"
            raise NotFound(f"no budget is declared for {source!r}; there are: {there_are}")
        return await self._rt.gates.use(declared[source], connection_id=connection_id)
