"""Batching of small writes: items that arrive while a batch is written make up the next batch."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar, cast

Item = TypeVar("Item")
Result = TypeVar("Result")

BATCH_MAX = 100


class Coalescer(Generic[Item, Result]):
    """Collects items from many tasks and writes them in batches, a few batches at a time.

    Cancelling a caller does not take its item back: the item may be written already.
    """

    def __init__(
        self,
        run: Callable[[list[Item]], Awaitable[list[Result | Exception]]],
        *,
        in_flight_max: int = 1,
    ) -> None:
        """Pass batches to `run`, which returns a result or an error for each item."""
        self._run = run
        self._in_flight_max = in_flight_max
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        #: Keeps the tasks alive, because the event loop only has weak references to them.
        self._flushing: set[asyncio.Task[None]] = set()

    async def submit(self, item: Item) -> Result:
        """Wait for the item's batch and return its result."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if len(self._flushing) < self._in_flight_max:
            self._flushing.add(asyncio.create_task(self._flush(), name="coalesce"))
        return await future

    async def _flush(self) -> None:
        # The first batch is what was submitted in this turn of the event loop.
        try:
            while self._waiting:
                batch = self._waiting[:BATCH_MAX]
                del self._waiting[:BATCH_MAX]
                await self._run_batch(batch)
        finally:
            # Done here, not in a callback: an item submitted before the callback ran would see this
            # task as still flushing, and nobody would ever write it.
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
