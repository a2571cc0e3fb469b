"""Hosts: they crash without a `finally`, restart, pause, and mark what they run."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import AsyncIterator
from contextvars import ContextVar

import pytest

from headgate.testing import (
    Deadlock,
    Host,
    SimulationLoop,
    VirtualClock,
    current_host,
    release_frozen,
    run,
)

YEAR_S = 365 * 86_400.0


# Crash and restart.


def test_a_crash_runs_no_finally_and_other_hosts_go_on() -> None:
    events: list[str] = []

    async def main(loop: SimulationLoop) -> None:
        clock = VirtualClock(loop)

        async def generate() -> AsyncIterator[int]:
            try:
                while True:
                    await clock.sleep(1)
                    yield 1
            finally:
                events.append("generator finalised")

        async def child() -> None:
            try:
                async for _ in generate():
                    events.append(f"{current_host()} {loop.time():.0f}")
            except BaseException:
                events.append("except")
                raise
            finally:
                events.append("finally")

        async def parent() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(child())

        doomed, other = loop.host("doomed"), loop.host("other")
        doomed.spawn(parent())
        survivor = other.spawn(parent())
        await clock.sleep(1.5)
        doomed.crash()
        gc.collect()
        await clock.sleep(1)
        assert events == ["doomed#1 1", "other#1 1", "other#1 2"]
        survivor.cancel()

    run(main)
    gc.collect()

    assert sorted(events[3:]) == ["except", "finally", "generator finalised"]


def test_a_future_resolved_after_the_crash_does_not_run_the_host() -> None:
    events: list[str] = []

    async def main(loop: SimulationLoop) -> None:
        reply = loop.create_future()

        async def ask() -> None:
            events.append(await reply)

        host = loop.host("asker")
        host.spawn(ask())
        await VirtualClock(loop).sleep(1)
        host.crash()
        reply.set_result("too late")
        await VirtualClock(loop).sleep(1)

    run(main)

    assert events == []


def test_a_crash_between_completion_and_wake_up_loses_the_wake_up() -> None:
    events: list[str] = []

    async def main(loop: SimulationLoop) -> None:
        async def ask() -> None:
            await loop.run_in_executor(None, events.append, "executed")
            events.append("acknowledged")

        host = loop.host("asker")
        host.spawn(ask())
        while not events:
            await VirtualClock(loop).sleep(0)
        host.crash()
        await VirtualClock(loop).sleep(1)

    run(main)

    assert events == ["executed"]


def test_the_timers_of_a_crashed_host_do_not_move_time() -> None:
    async def main(loop: SimulationLoop) -> None:
        host = loop.host("sleeper")
        host.spawn(VirtualClock(loop).sleep(YEAR_S))
        await VirtualClock(loop).sleep(1)
        host.crash()
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match=r"at 1\.0 s"):
        run(main)


def test_a_crashed_hosts_generator_is_not_closed_although_others_drop_it() -> None:
    events: list[str] = []

    async def main(loop: SimulationLoop) -> None:
        shared: list[AsyncIterator[int]] = []

        async def generate() -> AsyncIterator[int]:
            try:
                yield 1
            finally:
                events.append("finally")

        async def work() -> None:
            shared.append(generate())
            await anext(shared[0])

        host = loop.host("worker")
        await host.spawn(work())
        host.crash()
        shared.clear()
        await VirtualClock(loop).sleep(1)

    run(main)

    assert events == []


def test_a_host_can_crash_itself_at_a_line() -> None:
    events: list[str] = []

    async def main(loop: SimulationLoop) -> None:
        host = loop.host("worker")

        async def work() -> None:
            try:
                with pytest.raises(RuntimeError, match="crash_here"):
                    host.crash()
                events.append("before")
                await host.crash_here()
            finally:
                events.append("finally")

        host.spawn(work())
        with pytest.raises(RuntimeError, match="not the running host"):
            await host.crash_here()
        await VirtualClock(loop).sleep(1)
        assert host.crashed

    run(main)

    assert events == ["before"]


def test_a_crashed_hosts_finally_does_not_run_at_interpreter_exit() -> None:
    program = """if True:
        import asyncio
        from headgate.testing import run

        async def work():
            try:
                await asyncio.Event().wait()
            finally:
                print("finally")

        async def main(loop):
            host = loop.host("worker")
            host.spawn(work())
            await asyncio.wait_for(asyncio.shield(loop.create_future()), 1)

        async def crash(loop):
            try:
                await main(loop)
            except TimeoutError:
                loop.host("worker").crash()

        run(crash)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_crashed_hosts_hold_can_be_released_after_the_run() -> None:
    events: list[str] = []

    async def main(loop: SimulationLoop) -> None:
        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                events.append(f"{current_host()}")
                await VirtualClock(loop).sleep(1)

        async def insist() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await loop.create_future()

        host = loop.host("worker")
        host.spawn(work())
        host.spawn(insist())
        await VirtualClock(loop).sleep(1)
        host.crash()
        release_frozen()
        assert events == []

    run(main)
    assert events == []

    release_frozen()
    assert events == ["worker#1"]


def test_a_restart_is_a_new_incarnation_on_the_same_clock() -> None:
    async def main(loop: SimulationLoop) -> None:
        first = loop.host("worker")
        first.skew_s = 3.0

        second = first.restart()

        assert first.crashed
        assert not second.crashed
        assert (str(first), str(second)) == ("worker#1", "worker#2")
        assert second.skew_s == 3.0
        assert loop.host("worker") is second
        with pytest.raises(RuntimeError, match="restart"):
            first.spawn(VirtualClock(loop).sleep(1))
        await second.spawn(VirtualClock(loop).sleep(1))
        second.crash()
        assert str(second.restart()) == "worker#3"

    run(main)


# Pause and resume.


def test_a_paused_host_catches_up_on_resume() -> None:
    events: list[tuple[str, float]] = []

    async def main(loop: SimulationLoop) -> None:
        clock = VirtualClock(loop)

        async def tick() -> None:
            while True:
                await clock.sleep(1)
                events.append((str(current_host()), loop.time()))

        host = loop.host("stalled")
        host.spawn(tick())
        loop.host("other").spawn(tick())
        await clock.sleep(1.5)
        host.pause()
        await clock.sleep(2)
        host.resume()
        await clock.sleep(1.1)

    run(main)

    assert [time for host, time in events if host == "stalled#1"] == [1.0, 3.5, 4.5]
    assert [time for host, time in events if host == "other#1"] == [1.0, 2.0, 3.0, 4.0]


def test_a_pause_keeps_the_order_of_what_was_ready() -> None:
    order: list[int] = []

    async def main(loop: SimulationLoop) -> None:
        async def work(number: int) -> None:
            order.append(number)

        host = loop.host("stalled")
        host.pause()
        host.spawn(work(1))
        loop.call_soon(host.resume)
        host.spawn(work(2))
        await VirtualClock(loop).sleep(1)

    run(main)

    assert order == [1, 2]


def test_a_paused_host_can_crash() -> None:
    async def main(loop: SimulationLoop) -> None:
        host = loop.host("worker")
        task = host.spawn(VirtualClock(loop).sleep(1))
        host.pause()
        await VirtualClock(loop).sleep(2)
        host.crash()
        host.resume()
        host.pause()
        await VirtualClock(loop).sleep(2)
        assert not task.done()

    run(main)


# The mark.


def test_a_host_marks_the_tasks_and_timers_that_its_tasks_create() -> None:
    seen: list[Host | None] = []
    request: ContextVar[str] = ContextVar("request", default="none")

    async def main(loop: SimulationLoop) -> None:
        request.set("the caller's")

        async def child() -> None:
            seen.append(current_host())
            loop.call_later(1, lambda: seen.append(current_host()))

        async def parent() -> str:
            await asyncio.create_task(child())
            return request.get()

        assert await loop.host("worker").spawn(parent()) == "none"
        await VirtualClock(loop).sleep(2)
        assert seen == [loop.host("worker")] * 2
        assert current_host() is None

    run(main)
