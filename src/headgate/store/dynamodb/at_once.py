"""Many requests at the same time, but not too many."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")

#: The most requests of one operation that are under way at the same time.
AT_ONCE_MAX = 16


async def gather(work: Iterable[Awaitable[T]]) -> list[T]:
    """Await all, a few at a time; the first error is raised after all have ended."""
    free = asyncio.Semaphore(AT_ONCE_MAX)

    async def one(each: Awaitable[T]) -> T:
        async with free:
            return await each

    done = await asyncio.gather(*(one(each) for each in work), return_exceptions=True)
    for result in done:
        if isinstance(result, BaseException):
            raise result
    return [result for result in done if not isinstance(result, BaseException)]
