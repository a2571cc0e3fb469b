"""Many small requests, few transactions: what comes while one batch is written makes the next."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar, cast

Item = TypeVar("Item")
Result = TypeVar("Result")

BATCH_MAX = 100


class Coalescer(Generic[Item, Result]):
    """Collects items from many tasks and hands them over in batches, a few batches at a time.

    A caller that is cancelled while waiting does not take its item back: it may be written already.
    """

    def __init__(
        self,
        run: Callable[[list[Item]], Awaitable[list[Result | Exception]]],
        *,
        in_flight_max: int = 1,
    ) -> None:
        """Hand batches to `run`, which answers for each item with a result or an error."""
        self._run = run
        self._in_flight_max = in_flight_max
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        #: Keeps the tasks alive: the event loop itself holds them only weakly.
        self._flushing: set[asyncio.Task[None]] = set()

    async def submit(self, item: Item) -> Result:
        """Wait for the item's batch and return its result."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if len(self._flushing) < self._in_flight_max:
            self._flushing.add(asyncio.create_task(self._flush(), name="coalesce"))
        return await future

    async def _flush(self) -> None:
        # The first one takes what has gathered in this turn of the loop; the next what is left.
        try:
            while self._waiting:
                batch = self._waiting[:BATCH_MAX]
                del self._waiting[:BATCH_MAX]
                await self._run_batch(batch)
        finally:
            # Here, not in a callback: an item that comes between would count on us and wait for
            # ever.
            self._flushing.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _run_batch(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._run([item for item, _ in batch])
        except Exception as error:
            results = [error] * len(batch)
        for (_, future), result in zip(batch, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
