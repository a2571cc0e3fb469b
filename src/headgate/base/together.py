"""Waiting for several things that happen at the same time."""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


async def all_ended(work: Iterable[Awaitable[T]]) -> Sequence[T]:
    """Await all of the work at the same time; returns the results in its order.

    If a part fails, the others are finished, and the first error is raised when all have ended.
    """
    results = await asyncio.gather(*work, return_exceptions=True)
    done: list[T] = []
    for each in results:
        if isinstance(each, BaseException):
            raise each
        done.append(each)
    return done
