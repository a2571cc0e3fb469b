"""Many functions that ask one budget on DynamoDB: what a grant costs, and who is turned away.

The limiter is the real one, and the table a model of one: it checks conditions as DynamoDB does,
and an answer takes a few milliseconds of virtual time. It costs no money and runs in seconds.
"""

import asyncio
import random
from collections.abc import Sequence
from datetime import datetime

from rich.table import Table

from bench.report import console, is_quick
from headgate import Budget, Lane, Limit
from headgate.model.budget import BudgetRequest, Granted
from headgate.store.dynamodb.budgets.limiter import DynamoLimiter
from headgate.store.dynamodb.engine.address import DynamoAddress
from headgate.store.dynamodb.engine.attributes import Attributes, Key, key_of
from headgate.store.dynamodb.engine.client import DynamoClient
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.dynamodb.engine.writes import IS_NEW, Delete, Put, Update
from headgate.testing import runner
from headgate.testing.loop import SimulationLoop
from headgate.testing.virtual_clock import VirtualClock

#: Nothing is refused by the budget itself.
WIDE = Budget("wide", [Limit(10**9, per="15min"), Limit(10**9, per="day")], paced=False)
#: Requests a second of each function, which ask whether or not the last one has its answer.
RATE = 2.0
#: How long a request is under way, each way: what DynamoDB in the same region takes.
WAY_S = (0.0015, 0.004)


class ModelTable(DynamoTable):
    """A process's view of items that all processes share."""

    def __init__(
        self, items: dict[Key, Attributes], clock: VirtualClock, rng: random.Random
    ) -> None:
        """Share `items` with others."""
        super().__init__(DynamoClient(DynamoAddress("model"), clock, rng, server_time=False))
        self._items = items
        self.reads = self.writes = 0

    def now(self) -> datetime:
        """The time of all."""
        return self.client.now()

    async def get_many(
        self, keys: Sequence[Key], attributes: Sequence[str] | None = None
    ) -> dict[Key, Attributes]:
        """The items as they are when the request arrives."""
        self.reads += len(keys)
        await self._way()
        found = {key: self._items[key] for key in keys if key in self._items}
        await self._way()
        return found

    async def write(self, write: Put | Update | Delete) -> Attributes | None:
        """Write the item if its condition holds when the request arrives."""
        assert isinstance(write, Put)
        self.writes += 1
        await self._way()
        there = self._items.get(write.key)
        if write.condition == IS_NEW:
            holds = there is None
        else:
            holds = there is not None and there["version"] == write.values["seen"]
        if holds:
            self._items[key_of(write.item)] = write.item
        await self._way()
        if not holds:
            raise ConditionFailed([there], [True])
        return None

    async def _way(self) -> None:
        await self.client.sleep(self.client.rng.uniform(*WAY_S))


class Outcome:
    """What became of the requests of a run."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.granted = self.refused = 0
        self.waits_s: list[float] = []


async def ask_for(
    loop: SimulationLoop, limiter: DynamoLimiter, rng: random.Random, seconds: float, into: Outcome
) -> None:
    """Ask at random moments, for so many seconds, and wait for the answers."""
    request = BudgetRequest(lane=Lane.HOT, connection_id="one")

    async def ask() -> None:
        began_s = loop.time()
        answer = await limiter.acquire(WIDE, request, grant_id="grant")
        into.waits_s.append(loop.time() - began_s)
        if isinstance(answer, Granted):
            into.granted += 1
        else:
            into.refused += 1

    async with asyncio.TaskGroup() as asking:
        while loop.time() < seconds:
            await asyncio.sleep(rng.expovariate(RATE))
            asking.create_task(ask())


def measure(functions: int, *, seconds: float) -> list[str]:
    """One row of the table."""
    outcome, tables = Outcome(), list[ModelTable]()

    async def main(loop: SimulationLoop) -> None:
        items: dict[Key, Attributes] = {}
        async with asyncio.TaskGroup() as group:
            for number in range(functions):
                rng = loop.random(f"function {number}")
                table = ModelTable(items, VirtualClock(loop), rng)
                tables.append(table)
                limiter = DynamoLimiter(table)
                group.create_task(ask_for(loop, limiter, rng, seconds, outcome))

    runner.run(main, seed=1)
    granted = max(1, outcome.granted)
    writes, reads = sum(each.writes for each in tables), sum(each.reads for each in tables)
    waits = sorted(outcome.waits_s)
    return [
        f"{functions}",
        f"{outcome.granted + outcome.refused:,}",
        f"{outcome.refused:,}",
        f"{writes / granted:.1f}",
        f"{reads / granted:.1f}",
        f"{writes / seconds:,.0f}",
        f"{waits[len(waits) // 2] * 1000:,.0f} ms",
        f"{waits[len(waits) * 99 // 100] * 1000:,.0f} ms",
    ]


def main() -> None:
    """Run everything and print it."""
    seconds = 10.0 if is_quick(__doc__ or "") else 60.0
    columns = ("functions", "requests", "turned away", "writes a grant", "reads a grant")
    table = Table(*columns, "writes a second", "half within", "99 % within")
    for functions in (1, 10, 25, 50, 110, 200):
        table.add_row(*measure(functions, seconds=seconds))
    console.print(f"Each function asks {RATE:g} times a second.")
    console.print(table)


if __name__ == "__main__":
    main()
