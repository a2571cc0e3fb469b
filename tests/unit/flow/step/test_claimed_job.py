"""Taking a job out of a worker's hands: before, during and after it reads."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from headgate.flow.step.claimed_job import ClaimedJob, Interrupt, Interrupted
from headgate.testing import SimulationLoop, VirtualClock, run
from tests.unit.values import make_job

SEEDS = [None, *range(8)]


def holding() -> ClaimedJob:
    return ClaimedJob(make_job())


def reading(
    held: ClaimedJob,
    clock: VirtualClock,
    read: Callable[[], Awaitable[None]] | None = None,
) -> asyncio.Task[str]:
    """A worker that reads for ten seconds, then writes for ten; the task tells how it ended."""

    async def work() -> str:
        try:
            with held.interruptible(seconds=60):
                await (read() if read else clock.sleep(10))
        except Interrupted as interrupted:
            return f"interrupted: {interrupted.reason.value}"
        await clock.sleep(10)
        return "written"

    return asyncio.create_task(work())


def test_a_chunk_that_nobody_interrupts_is_written() -> None:
    async def main(loop: SimulationLoop) -> str:
        return await reading(holding(), VirtualClock(loop))

    assert run(main) == "written"


@pytest.mark.parametrize("reason", Interrupt)
def test_an_interrupt_before_the_chunk_keeps_it_from_being_read(reason: Interrupt) -> None:
    async def main(loop: SimulationLoop) -> tuple[str, float]:
        held = holding()
        held.interrupt(reason)
        return await reading(held, VirtualClock(loop)), loop.time()

    assert run(main) == (f"interrupted: {reason.value}", 0.0)


@pytest.mark.parametrize("reason", Interrupt)
@pytest.mark.parametrize("seed", SEEDS)
def test_an_interrupt_during_the_chunk_cuts_it_short(reason: Interrupt, seed: int | None) -> None:
    async def main(loop: SimulationLoop) -> tuple[str, float]:
        held, clock = holding(), VirtualClock(loop)
        task = reading(held, clock)
        await clock.sleep(3)
        held.interrupt(reason)
        return await task, loop.time()

    assert run(main, seed=seed) == (f"interrupted: {reason.value}", 3.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_interrupt_after_the_chunk_lets_its_result_be_written(seed: int | None) -> None:
    async def main(loop: SimulationLoop) -> tuple[str, str, float]:
        held, clock = holding(), VirtualClock(loop)
        task = reading(held, clock)
        await clock.sleep(15)
        held.interrupt(Interrupt.STOP)
        written = await task
        # It is for the next chunk, before that begins.
        return written, await reading(held, clock), loop.time()

    assert run(main, seed=seed) == ("written", "interrupted: stop", 20.0)


@pytest.mark.parametrize("seed", range(30))
def test_an_interrupt_at_the_very_end_of_reading_never_cuts_the_write(seed: int) -> None:
    # Given a chunk whose last byte comes at the moment of the interrupt
    async def main(loop: SimulationLoop) -> tuple[str, float]:
        held, clock = holding(), VirtualClock(loop)
        task = reading(held, clock)
        await clock.sleep(10)
        held.interrupt(Interrupt.STOP)
        return await task, loop.time()

    # Then it is either dropped or written whole, by whichever came first
    assert run(main, seed=seed) in [("interrupted: stop", 10.0), ("written", 20.0)]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_reason_stands(seed: int | None) -> None:
    async def main(loop: SimulationLoop) -> str:
        held, clock = holding(), VirtualClock(loop)
        task = reading(held, clock)
        await clock.sleep(1)
        held.interrupt(Interrupt.CANCEL)
        held.interrupt(Interrupt.LOST)
        return await task

    assert run(main, seed=seed) == "interrupted: cancel"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("at_s", [5, 15])
def test_a_cancellation_by_somebody_else_is_not_swallowed(seed: int | None, at_s: float) -> None:
    async def main(loop: SimulationLoop) -> bool:
        clock = VirtualClock(loop)
        task = reading(holding(), clock)
        await clock.sleep(at_s)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert run(main, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ours_first", [False, True])
def test_a_cancellation_by_somebody_else_wins_over_an_interrupt(
    seed: int | None, ours_first: bool
) -> None:
    async def main(loop: SimulationLoop) -> bool:
        held, clock = holding(), VirtualClock(loop)
        task = reading(held, clock)
        await clock.sleep(5)
        if ours_first:
            held.interrupt(Interrupt.STOP)
            task.cancel()
        else:
            task.cancel()
            held.interrupt(Interrupt.STOP)
        await asyncio.wait([task])
        return task.cancelled()

    assert run(main, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("again", [False, True])
def test_an_interrupt_is_told_from_a_cancellation_long_past(seed: int | None, again: bool) -> None:
    async def main(loop: SimulationLoop) -> str:
        # Given a worker that was cancelled once and went on
        held, clock = holding(), VirtualClock(loop)

        async def work() -> str:
            with suppress(asyncio.CancelledError):
                await clock.sleep(5)
            try:
                with held.interruptible(seconds=60):
                    await clock.sleep(5)
            except Interrupted:
                return "interrupted"
            return "read"

        task = asyncio.create_task(work())
        await clock.sleep(1)
        task.cancel()
        await clock.sleep(1)

        # When it is interrupted, and perhaps cancelled again
        held.interrupt(Interrupt.STOP)
        if again:
            task.cancel()
        await asyncio.wait([task])
        return "cancelled" if task.cancelled() else task.result()

    # Then only the new cancellation is somebody else's
    assert run(main, seed=seed) == ("cancelled" if again else "interrupted")


@pytest.mark.parametrize("seed", SEEDS)
def test_an_interrupt_leaves_no_cancellation_behind(seed: int | None) -> None:
    async def main(loop: SimulationLoop) -> tuple[str, int]:
        held, clock = holding(), VirtualClock(loop)

        async def work() -> tuple[str, int]:
            with pytest.raises(Interrupted), held.interruptible(seconds=60):
                await clock.sleep(10)
            # The change that hands the job back is written under a timeout of its own.
            async with asyncio.timeout(5):
                await clock.sleep(1)
            task = asyncio.current_task()
            assert task is not None
            return "handed back", task.cancelling()

        task = asyncio.create_task(work())
        await clock.sleep(1)
        held.interrupt(Interrupt.STOP)
        return await task

    assert run(main, seed=seed) == ("handed back", 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_interrupt_reaches_through_a_timeout_that_ends_at_the_same_moment(
    seed: int | None,
) -> None:
    async def main(loop: SimulationLoop) -> str:
        held, clock = holding(), VirtualClock(loop)

        async def read() -> None:
            async with asyncio.timeout(5):
                await clock.sleep(10)

        task = reading(held, clock, read)
        await clock.sleep(5)
        held.interrupt(Interrupt.CANCEL)
        try:
            return await task
        except TimeoutError:
            return "late"

    assert run(main, seed=seed) in ("interrupted: cancel", "late")


def test_a_source_that_fails_is_heard_though_an_interrupt_came_before() -> None:
    async def main(loop: SimulationLoop) -> None:
        held, clock = holding(), VirtualClock(loop)

        async def read() -> None:
            try:
                await clock.sleep(10)
            finally:
                raise ConnectionError("while cleaning up")

        task = reading(held, clock, read)
        await clock.sleep(1)
        held.interrupt(Interrupt.STOP)
        with pytest.raises(ConnectionError):
            await task

    run(main)


def test_an_interrupt_says_why() -> None:
    assert str(Interrupted(Interrupt.LOST)) == "lost"
    assert Interrupted(Interrupt.LOST).reason is Interrupt.LOST


@pytest.mark.parametrize(
    ("reason", "abandoned"), [(None, True), (Interrupt.CANCEL, False), (Interrupt.STOP, False)]
)
def test_only_a_chunk_whose_time_is_over_is_given_up(
    reason: Interrupt | None, abandoned: bool
) -> None:
    # Given a chunk that goes on for two minutes, whatever it is asked
    async def main(loop: SimulationLoop) -> tuple[str, bool]:
        held, clock = holding(), VirtualClock(loop)

        async def read() -> None:
            with suppress(asyncio.CancelledError):
                await clock.sleep(100)
            await clock.sleep(100)

        task = reading(held, clock, read)
        await clock.sleep(1)
        if reason is not None:
            held.interrupt(reason)
        return await task, held.abandoned

    # Then what it brings is dropped, if the job was settled without it
    assert run(main) == ("interrupted: lost" if abandoned else "written", abandoned)
