"""The coalescer: what comes while one batch is written makes the next."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import pytest

from headgate.base import coalesce
from headgate.base.coalesce import Coalescer
from tests.stores import SOON_S

Batches = list[list[int]]


def doubling(batches: Batches, gate: asyncio.Event | None = None) -> Coalescer[int, int]:
    """Doubles each number; keeps the batches, and waits for the gate before it answers."""

    async def run(items: list[int]) -> list[int | Exception]:
        batches.append(items)
        if gate is not None:
            await gate.wait()
        return [2 * item for item in items]

    return Coalescer(run)


async def turn() -> None:
    """Let the loop go round once."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_soon(over.set)
    await over.wait()


async def until(holds: Callable[[], bool]) -> None:
    """Let other tasks run until the condition holds."""
    async with asyncio.timeout(SOON_S):
        while not holds():
            await turn()


async def answers_of(*callers: Awaitable[int]) -> list[int | BaseException]:
    async with asyncio.timeout(SOON_S):
        return await asyncio.gather(*callers, return_exceptions=True)


async def submit_all(
    coalescer: Coalescer[int, int], items: Iterable[int]
) -> list[int | BaseException]:
    return await answers_of(*map(coalescer.submit, items))


async def test_what_comes_while_a_batch_is_written_makes_the_next() -> None:
    # Given a batch that is being written
    batches: Batches = []
    gate = asyncio.Event()
    coalescer = doubling(batches, gate)
    first = asyncio.create_task(coalescer.submit(1))
    await until(lambda: len(batches) == 1)

    # When others come meanwhile
    others = [asyncio.create_task(coalescer.submit(number)) for number in (2, 3, 4)]
    for _ in range(5):
        await turn()

    # Then they wait for it, and go together
    assert batches == [[1]]
    gate.set()
    assert await answers_of(first, *others) == [2, 4, 6, 8]
    assert batches == [[1], [2, 3, 4]]


async def test_items_that_come_together_make_batches_of_a_limit_with_an_answer_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batches: Batches = []
    assert await submit_all(doubling(batches), range(5)) == [0, 2, 4, 6, 8]
    assert batches == [[0, 1, 2, 3, 4]]

    monkeypatch.setattr(coalesce, "BATCH_MAX", 4)
    batches.clear()
    await submit_all(doubling(batches), range(10))
    assert [len(batch) for batch in batches] == [4, 4, 2]


async def test_it_starts_again_after_it_had_nothing_to_do() -> None:
    batches: Batches = []
    coalescer = doubling(batches)

    for number in range(3):
        assert await coalescer.submit(number) == 2 * number

    assert batches == [[0], [1], [2]]


async def test_an_error_for_one_item_is_that_items_alone() -> None:
    async def run(items: list[int]) -> list[int | Exception]:
        return [ValueError("odd") if item % 2 else item for item in items]

    answers = await submit_all(Coalescer(run), range(4))

    assert [answers[0], answers[2]] == [0, 2]
    assert isinstance(answers[1], ValueError)
    assert isinstance(answers[3], ValueError)


async def test_a_batch_that_fails_whole_tells_every_caller_and_the_next_goes_through() -> None:
    # Given a database that is away for one batch
    tries = 0

    async def run(items: list[int]) -> list[int | Exception]:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ConnectionError("away")
        return list(items)

    # When three come while it is away, and one after
    coalescer: Coalescer[int, int] = Coalescer(run)
    answers = await submit_all(coalescer, range(3))

    # Then all three hear of it, and the fourth does not
    assert [type(answer) for answer in answers] == [ConnectionError] * 3
    assert await coalescer.submit(7) == 7


async def test_a_caller_that_is_cancelled_does_not_take_its_item_back() -> None:
    # Given a batch of three that is being written
    batches: Batches = []
    gate = asyncio.Event()
    coalescer = doubling(batches, gate)
    callers = [asyncio.create_task(coalescer.submit(number)) for number in range(3)]
    await until(lambda: len(batches) == 1)

    # When one caller goes away
    callers[1].cancel()
    asyncio.get_running_loop().call_soon(gate.set)
    answers = await answers_of(*callers)

    # Then the others are answered, and its item was in the batch all the same
    assert [answers[0], answers[2]] == [0, 4]
    assert isinstance(answers[1], asyncio.CancelledError)
    assert batches == [[0, 1, 2]]


async def test_only_one_batch_is_under_way_at_a_time() -> None:
    # Given a run that notes how many of it there are
    at_once: list[int] = []
    running = 0

    async def run(items: list[int]) -> list[int | Exception]:
        nonlocal running
        running += 1
        at_once.append(running)
        for _ in range(5):
            await turn()
        running -= 1
        return list(items)

    # When items come one by one, each before the last is answered
    coalescer: Coalescer[int, int] = Coalescer(run)
    callers: list[asyncio.Task[int]] = []
    for number in range(20):
        callers.append(asyncio.create_task(coalescer.submit(number)))
        await turn()
    assert await answers_of(*callers) == list(range(20))

    # Then no two batches met
    assert set(at_once) == {1}
