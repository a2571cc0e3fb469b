"""Several things at the same time: all end, whatever becomes of one of them."""

import asyncio

import pytest

from headgate.base.together import all_ended


async def test_the_results_are_in_the_order_of_the_work() -> None:
    first_may_end = asyncio.Event()

    async def first() -> int:
        await first_may_end.wait()
        return 1

    async def second() -> int:
        first_may_end.set()
        return 2

    assert await all_ended([first(), second()]) == [1, 2]
    assert await all_ended([]) == []


async def test_an_error_is_raised_when_all_have_ended() -> None:
    failed, ended = asyncio.Event(), []

    async def fail() -> None:
        failed.set()
        raise ZeroDivisionError

    async def finish() -> None:
        await failed.wait()
        ended.append("finished")

    with pytest.raises(ZeroDivisionError):
        await all_ended([fail(), finish()])
    assert ended == ["finished"]


async def test_whoever_is_cancelled_cancels_all_and_waits_for_them() -> None:
    under_way, ended = asyncio.Barrier(3), []

    async def clean_up() -> None:
        try:
            await under_way.wait()
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    task = asyncio.ensure_future(all_ended([clean_up(), clean_up()]))
    await under_way.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["cleaned up"] * 2
