"""A whole run: what it ends, what it reports, and what makes it fail."""

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from headgate.testing import (
    LimitExceeded,
    SimulationLoop,
    UnhandledTaskError,
    VirtualClock,
    current_host,
    release_frozen,
    run,
)

# Beginning and end.


def test_a_simulation_does_not_run_inside_a_running_loop() -> None:
    async def main(loop: SimulationLoop) -> None:
        with pytest.raises(RuntimeError, match="inside a running"):
            run(main)
        with pytest.raises(RuntimeError, match="running loop"):
            loop.close()

    run(main)


def test_a_coroutine_can_be_run_and_a_closed_loop_refuses_work() -> None:
    async def main() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    loop = run(main())

    assert loop.is_closed()
    assert gc.isenabled()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_soon(print)


def test_what_main_leaves_behind_is_cancelled_and_closed() -> None:
    events: list[str] = []
    kept: list[AsyncIterator[int]] = []

    async def main(loop: SimulationLoop) -> None:
        async def generate() -> AsyncIterator[int]:
            try:
                yield 1
            finally:
                await VirtualClock(loop).sleep(1)
                events.append("generator closed")

        async def linger() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await VirtualClock(loop).sleep(1)
                events.append(f"{current_host()} cancelled")

        kept.append(generate())
        await anext(kept[0])
        asyncio.create_task(linger())  # noqa: RUF006 (the loop holds it)
        stalled = loop.host("stalled")
        stalled.spawn(linger())
        await VirtualClock(loop).sleep(1)
        stalled.pause()

    run(main)

    assert events == ["None cancelled", "stalled#1 cancelled", "generator closed"]


def test_a_task_that_refuses_to_end_fails_the_run_and_is_frozen() -> None:
    events: list[str] = []

    async def main(loop: SimulationLoop) -> None:
        async def refuse() -> None:
            while True:
                try:
                    await VirtualClock(loop).sleep(86_400)
                except asyncio.CancelledError:
                    loop.note("no")
                except GeneratorExit:
                    events.append("closed")
                    raise

        loop.host("worker").spawn(refuse())
        await VirtualClock(loop).sleep(1)

    with pytest.raises(LimitExceeded, match="refuse"):
        run(main, time_limit_s=2.0)
    gc.collect()
    assert events == []
    release_frozen()
    assert events == ["closed"]


def test_an_exit_leaves_at_once_and_the_rest_is_cancelled() -> None:
    events: list[str] = []

    async def linger() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            events.append("cancelled")

    async def leave() -> None:
        raise SystemExit(3)

    async def main(loop: SimulationLoop) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(linger())
            group.create_task(leave())

    with pytest.raises(SystemExit):
        run(main)

    assert events == ["cancelled"]


# What nobody handled.


@pytest.mark.fault(40)
def test_an_unhandled_task_exception_fails_the_run() -> None:
    async def fail() -> None:
        raise ValueError("lost")

    async def main(loop: SimulationLoop) -> None:
        asyncio.create_task(fail(), name="forgotten")  # noqa: RUF006 (being forgotten is the point)
        await VirtualClock(loop).sleep(1)

    with pytest.raises(UnhandledTaskError) as caught:
        run(main)

    (error,) = caught.value.exceptions
    assert isinstance(error, ValueError)
    assert error.__notes__[0].endswith("exception was never retrieved: forgotten")


def test_an_unhandled_exception_counts_although_somebody_holds_the_task() -> None:
    held: list[asyncio.Task[None]] = []

    async def fail() -> None:
        raise ValueError("ignored")

    async def main(loop: SimulationLoop) -> None:
        held.append(asyncio.create_task(fail()))
        await VirtualClock(loop).sleep(1)

    with pytest.raises(UnhandledTaskError):
        run(main)


def test_a_failed_future_that_died_in_a_reference_cycle_fails_the_run() -> None:
    async def main(loop: SimulationLoop) -> None:
        future = loop.create_future()
        future.set_exception(ValueError(future))

    with pytest.raises(UnhandledTaskError):
        run(main)


def test_an_exception_that_somebody_looked_at_does_not_count() -> None:
    async def fail() -> None:
        raise ValueError

    async def main(loop: SimulationLoop) -> str:
        task = asyncio.create_task(fail())
        await asyncio.wait([task])
        assert isinstance(task.exception(), ValueError)
        assert isinstance((await asyncio.gather(fail(), return_exceptions=True))[0], ValueError)
        return "fine"

    assert run(main) == "fine"


def test_an_exception_in_a_callback_or_in_a_clean_up_fails_the_run() -> None:
    def fail() -> None:
        raise KeyError("callback")

    async def fail_at_the_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("clean-up")

    async def broken_callback(loop: SimulationLoop) -> None:
        loop.call_soon(fail)
        await VirtualClock(loop).sleep(1)

    async def broken_clean_up(loop: SimulationLoop) -> None:
        loop.host("worker").spawn(fail_at_the_end())
        await VirtualClock(loop).sleep(1)

    for main, kind in ((broken_callback, KeyError), (broken_clean_up, OSError)):
        with pytest.raises(UnhandledTaskError) as caught:
            run(main)
        assert isinstance(caught.value.exceptions[0], kind)


def test_a_failure_that_is_no_exception_or_comes_from_a_generator_fails_the_run() -> None:
    class Panic(BaseException):
        pass

    async def panic() -> None:
        raise Panic

    async def generate() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            raise OSError("closing")

    async def main(loop: SimulationLoop) -> None:
        loop.host("worker").spawn(panic())
        await VirtualClock(loop).sleep(1)

    async def leave_open(loop: SimulationLoop) -> None:
        kept.append(generate())
        await anext(kept[0])

    kept: list[AsyncIterator[int]] = []
    with pytest.raises(UnhandledTaskError) as caught:
        run(main)
    assert isinstance(caught.value.exceptions[0].__cause__, Panic)
    with pytest.raises(UnhandledTaskError) as caught:
        run(leave_open)
    assert isinstance(caught.value.exceptions[0], OSError)


def test_what_a_crashed_host_could_not_look_at_does_not_count() -> None:
    async def main(loop: SimulationLoop) -> None:
        host = loop.host("worker")

        async def fail() -> None:
            # A plain callback, so that the crash comes before the parent wakes up.
            loop.call_soon(host.crash)
            raise ValueError

        async def parent() -> None:
            task = asyncio.create_task(fail())
            await VirtualClock(loop).sleep(1)
            await task

        host.spawn(parent())
        await VirtualClock(loop).sleep(2)

    run(main)


# The report.


def test_the_mains_own_exception_carries_the_report() -> None:
    async def main(loop: SimulationLoop) -> None:
        loop.note("about to fail")
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        run(main, seed=3)

    (report,) = caught.value.__notes__
    assert "seed=3 steps=" in report
    assert "event: 0.0 - about to fail" in report
    assert "step: 1 0.0 - main test_the_mains_own_exception_carries_the_report" in report


def test_the_mains_own_exception_comes_before_those_that_nobody_handled() -> None:
    async def fail() -> None:
        raise KeyError("theirs")

    async def main(loop: SimulationLoop) -> None:
        loop.host("worker").spawn(fail())
        await VirtualClock(loop).sleep(1)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        run(main)

    assert "unhandled: KeyError('theirs')" in caught.value.__notes__[0]
