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
    results, errors = await gather_most(work)
    if errors:
        raise errors[0]
    return results


async def gather_most(work: Iterable[Awaitable[T]]) -> tuple[list[T], list[Exception]]:
    """As `gather`, but returns the results of those that did not fail, and the errors."""
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
    return [results[place] for place in sorted(results)], errors
