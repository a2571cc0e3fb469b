"""Many requests at the same time, but not too many."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")

#: The most requests of one operation that are under way at the same time.
AT_ONCE_MAX = 16


async def gather(work: Iterable[Awaitable[T]]) -> list[T]:
    """Await all, a few at a time; the first error is raised after all have ended.

    What `work` generates begins when its turn has come: if this is cancelled, the rest never was.
    """
    numbered = enumerate(work)
    results: dict[int, T] = {}
    errors: list[Exception] = []

    async def run() -> None:
        for place, each in numbered:
            try:
                results[place] = await each
            except Exception as error:
                errors.append(error)

    await asyncio.gather(*(run() for _ in range(AT_ONCE_MAX)))
    if errors:
        raise errors[0]
    return [results[place] for place in range(len(results))]
