"""The simulation loop: virtual time, order from a seed, hosts that crash, pause and disagree.

Run as a script, with a seed, this file prints the trace hash of `workload`: a test compares the
hashes of two processes.
"""

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import headgate.simulation
from headgate.base.clock import Clock
from headgate.simulation import (
    Deadlock,
    Host,
    LimitExceeded,
    NotSimulated,
    SimulationLoop,
    UnhandledTaskError,
    VirtualClock,
    current_host,
    release_frozen,
    run,
)

YEAR_S = 365 * 86_400.0


async def workload(loop: SimulationLoop) -> SimulationLoop:
    """A bit of everything whose order could depend on an address or a hash."""
    clock = VirtualClock(loop)

    async def work(number: int) -> None:
        await clock.sleep(number % 3)
        loop.note(f"worked {number}")

    async def wait_for_ever(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            loop.note(f"cancelled {number}")

    async def fail() -> None:
        await clock.sleep(1)
        raise ValueError

    host = loop.host("worker")
    host.spawn(wait_for_ever(-1))
    tasks = [asyncio.create_task(work(number)) for number in range(20)]
    done, _ = await asyncio.wait(tasks)
    for task in done:
        loop.note(task.get_name())
    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(wait_for_ever(number))
            group.create_task(fail())
    host.crash()
    return loop


def order_of(seed: int | None) -> list[int]:
    order: list[int] = []

    async def main(loop: SimulationLoop) -> None:
        async def work(number: int) -> None:
            order.append(number)

        async with asyncio.TaskGroup() as group:
            for number in range(10):
                group.create_task(work(number))

    run(main, seed=seed)
    return order


# Time.


def test_a_year_passes_without_a_real_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise AssertionError("a real wait")

    monkeypatch.setattr("time.sleep", fail)
    monkeypatch.setattr("select.select", fail)
    monkeypatch.setattr("selectors.DefaultSelector.select", fail)

    async def main(loop: SimulationLoop) -> float:
        await VirtualClock(loop).sleep(YEAR_S)
        return loop.time()

    assert run(main) == YEAR_S


def test_time_stands_still_while_something_is_ready() -> None:
    async def main(loop: SimulationLoop) -> tuple[float, float]:
        begin = loop.time()
        for _ in range(1_000):
            await VirtualClock(loop).sleep(0)
        return begin, loop.time()

    assert run(main) == (0.0, 0.0)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_timers_fire_in_order_of_deadline(seed: int | None) -> None:
    fired: list[float] = []

    async def main(loop: SimulationLoop) -> None:
        for delay in (3.0, 1.0, 2.0):
            loop.call_later(delay, fired.append, delay)
        await VirtualClock(loop).sleep(10)

    run(main, seed=seed)

    assert fired == [1.0, 2.0, 3.0]


def test_timers_of_one_deadline_fire_in_order_of_creation_without_a_seed() -> None:
    fired: list[int] = []

    async def main(loop: SimulationLoop) -> None:
        for number in range(5):
            loop.call_at(1.0, fired.append, number)
        await VirtualClock(loop).sleep(10)

    run(main)

    assert fired == [0, 1, 2, 3, 4]


def test_a_cancelled_timer_neither_fires_nor_moves_time() -> None:
    async def main(loop: SimulationLoop) -> float:
        timers = [loop.call_later(60, pytest.fail, "fired") for _ in range(5_000)]
        for timer in timers:
            timer.cancel()
        await VirtualClock(loop).sleep(1)
        return loop.time()

    assert run(main) == 1.0


def test_cancelled_timers_do_not_pile_up() -> None:
    async def main(loop: SimulationLoop) -> int:
        for _ in range(10_000):
            loop.call_later(60, pytest.fail, "fired").cancel()
        return len(loop._timers)

    assert run(main) < 2_000


def test_a_timer_that_is_due_at_once_does_not_wait_for_idleness() -> None:
    async def main(loop: SimulationLoop) -> int:
        fired = asyncio.Event()
        loop.call_later(0, fired.set)
        turns = 0
        while not fired.is_set():
            await VirtualClock(loop).sleep(0)
            turns += 1
        return turns

    assert run(main) == 1


def test_a_deadline_that_is_no_number_is_refused() -> None:
    async def main(loop: SimulationLoop) -> None:
        loop.call_later(float("nan"), print)

    with pytest.raises(ValueError, match="must be a number"):
        run(main)


# Order and trace.


def test_without_a_seed_tasks_run_first_in_first_out() -> None:
    assert order_of(None) == list(range(10))


def test_seeds_give_different_orders_and_one_seed_the_same() -> None:
    orders = [order_of(seed) for seed in range(10)]

    assert len({tuple(order) for order in orders}) == 10
    assert orders == [order_of(seed) for seed in range(10)]


def test_the_trace_hash_is_the_runs_identity() -> None:
    hashes = [run(workload, seed=seed).trace_hash() for seed in (1, 1, 2, None, None)]

    assert hashes[0] == hashes[1]
    assert hashes[3] == hashes[4]
    assert len(set(hashes)) == 3


def test_a_note_changes_the_hash_and_only_the_last_fifty_are_kept() -> None:
    async def main(loop: SimulationLoop) -> tuple[str, str]:
        before = loop.trace_hash()
        for number in range(60):
            loop.note(f"event {number}")
        assert list(loop.trace) == [f"0.0 - event {number}" for number in range(10, 60)]
        return before, loop.trace_hash()

    before, after = run(main)
    assert before != after


def test_the_hash_is_the_same_in_another_process_with_another_hash_seed() -> None:
    def hash_in_a_process(hash_seed: str) -> str:
        return subprocess.run(
            [sys.executable, Path(__file__), "7"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    first, second = hash_in_a_process("1"), hash_in_a_process("2")

    assert first == second == run(workload, seed=7).trace_hash()


def test_sets_of_tasks_and_futures_iterate_in_order_of_creation() -> None:
    async def main(loop: SimulationLoop) -> None:
        futures = [loop.create_future() for _ in range(50)]
        tasks = [asyncio.create_task(VirtualClock(loop).sleep(1)) for _ in range(50)]

        assert sorted(futures, key=hash) == futures
        assert sorted(tasks, key=hash) == tasks
        assert len({*futures, *tasks}) == 100

    run(main)


def test_random_streams_are_independent_and_repeatable() -> None:
    network, store = SimulationLoop(1).random("network"), SimulationLoop(1).random("store")
    draws = [network.random() for _ in range(3)]

    again = SimulationLoop(1).random("network")

    assert draws == [again.random() for _ in range(3)]
    assert draws[0] != store.random()
    assert draws[0] != SimulationLoop(2).random("network").random()


# Hosts.


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
        from headgate.simulation import run

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

    run(main)


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


# The wall clock.


def test_each_host_sees_its_own_wall_clock() -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)

    async def main(loop: SimulationLoop) -> None:
        clock: Clock = VirtualClock(loop, start)

        async def look() -> datetime:
            assert clock.monotonic() == 100.0
            return clock.now()

        ahead, fast = loop.host("ahead"), loop.host("fast")
        ahead.skew_s, fast.drift = 2.0, 0.01
        await clock.sleep(100)

        assert clock.now() == start + timedelta(seconds=100)
        assert await ahead.spawn(look()) == start + timedelta(seconds=102)
        assert await fast.spawn(look()) == start + timedelta(seconds=101)

    run(main)


# Failure.


def test_a_deadlock_lists_who_waits_and_where() -> None:
    async def consume(queue: asyncio.Queue[int]) -> None:
        await queue.get()

    async def main(loop: SimulationLoop) -> None:
        task = loop.host("worker").spawn(consume(asyncio.Queue()), name="consumer")
        loop.host("broken").crash()
        stalled = loop.host("stalled")
        stalled.pause()
        stalled.spawn(consume(asyncio.Queue()))
        await task

    with pytest.raises(Deadlock) as caught:
        run(main)

    text = str(caught.value)
    assert "worker#1 consumer: " in text
    assert "consume (test_loop.py:" in text
    assert "> Queue.get (queues.py:" in text
    assert "- main: " in text
    assert "broken#1 is crashed" in text
    assert "stalled#1 is paused" in text


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


def test_a_busy_loop_meets_the_step_limit() -> None:
    async def main(loop: SimulationLoop) -> None:
        while True:
            await VirtualClock(loop).sleep(0)

    with pytest.raises(LimitExceeded, match="1000 steps and not done; pending tasks:\n  - main"):
        run(main, step_limit=1_000)


def test_an_endless_wait_meets_the_time_limit() -> None:
    async def main(loop: SimulationLoop) -> None:
        while True:
            await VirtualClock(loop).sleep(86_400)

    with pytest.raises(LimitExceeded, match=r"the next timer is only at 864000\.0 s"):
        run(main, time_limit_s=9.5 * 86_400)


def test_a_task_that_refuses_to_end_fails_the_run() -> None:
    async def main(loop: SimulationLoop) -> None:
        async def refuse() -> None:
            while True:
                try:
                    await VirtualClock(loop).sleep(86_400)
                except asyncio.CancelledError:
                    loop.note("no")

        loop.host("worker").spawn(refuse())
        await VirtualClock(loop).sleep(1)

    with pytest.raises(LimitExceeded, match="refuse"):
        run(main, time_limit_s=2.0)


# Asyncio's own tools.


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


def test_a_dropped_async_generator_is_closed() -> None:
    events: list[str] = []

    async def main(loop: SimulationLoop) -> None:
        async def generate() -> AsyncIterator[int]:
            try:
                yield 1
                yield 2
            finally:
                await VirtualClock(loop).sleep(1)
                events.append("closed")

        async for _ in generate():
            break
        await VirtualClock(loop).sleep(2)
        assert events == ["closed"]

    run(main)


@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3])
def test_timeouts(seed: int | None) -> None:
    async def main(loop: SimulationLoop) -> float:
        clock = VirtualClock(loop)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await clock.sleep(10)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(clock.sleep(10), 5)
        async with asyncio.timeout(5):
            await asyncio.wait_for(clock.sleep(1), 2)
        inner = asyncio.create_task(clock.sleep(3))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(inner), 1)
        await inner
        return loop.time()

    assert run(main, seed=seed) == 14.0


@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3])
def test_groups_and_waits(seed: int | None) -> None:
    async def main(loop: SimulationLoop) -> None:
        clock = VirtualClock(loop)

        async def after(seconds: float) -> float:
            await clock.sleep(seconds)
            return seconds

        assert await asyncio.gather(*map(after, (3, 1, 2))) == [3, 1, 2]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(after(seconds)) for seconds in (1, 2)]
        assert [task.result() for task in tasks] == [1, 2]
        pending = {asyncio.create_task(after(seconds)) for seconds in (5, 1)}
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result() for task in done] == [1]
        assert [await next_done for next_done in asyncio.as_completed(pending)] == [5]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main, seed=seed)


@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3])
def test_locks_queues_events_and_conditions(seed: int | None) -> None:
    async def main(loop: SimulationLoop) -> list[int]:
        clock = VirtualClock(loop)
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=2)
        lock, started, condition = asyncio.Lock(), asyncio.Event(), asyncio.Condition()
        got: list[int] = []

        async def consume() -> None:
            started.set()
            while True:
                async with lock:
                    item = await queue.get()
                    await clock.sleep(1)
                async with condition:
                    got.append(item)
                    condition.notify_all()
                queue.task_done()

        async with asyncio.TaskGroup() as group:
            consumers = [group.create_task(consume()) for _ in range(3)]
            await started.wait()
            for number in range(10):
                await queue.put(number)
            async with condition:
                await condition.wait_for(lambda: len(got) == 10)
            await queue.join()
            for consumer in consumers:
                consumer.cancel()
        return got

    assert sorted(run(main, seed=seed)) == list(range(10))


def test_an_executor_runs_inline_and_yields() -> None:
    events: list[str] = []

    def work(text: str) -> str:
        events.append(text)
        return text.upper()

    def fail() -> None:
        raise ValueError("inside")

    async def main(loop: SimulationLoop) -> str:
        future = loop.run_in_executor(None, work, "inline")
        assert events == []
        with pytest.raises(ValueError, match="inside"):
            await asyncio.to_thread(fail)
        loop.run_in_executor(None, work, "never").cancel()
        return await future

    assert run(main) == "INLINE"
    assert events == ["inline"]


def test_another_threads_callback_is_refused() -> None:
    async def main(loop: SimulationLoop) -> None:
        ran = asyncio.Event()
        loop.call_soon_threadsafe(ran.set)
        await ran.wait()
        loop._thread_id = -1
        with pytest.raises(NotSimulated, match="threads"):
            loop.call_soon_threadsafe(ran.set)

    run(main)


def test_real_sockets_signals_and_subprocesses_are_refused() -> None:
    async def main(loop: SimulationLoop) -> None:
        with pytest.raises(NotSimulated, match="sockets"):
            await asyncio.open_connection("localhost", 80)
        with pytest.raises(NotSimulated, match="subprocesses"):
            await asyncio.create_subprocess_exec("true")
        with pytest.raises(NotSimulated, match="signals"):
            loop.add_signal_handler(15, print)

    run(main)


def test_a_simulation_does_not_run_inside_a_running_loop() -> None:
    async def main(loop: SimulationLoop) -> None:
        with pytest.raises(RuntimeError, match="inside a running"):
            run(workload)
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


def test_the_package_exports_are_sorted_and_exist() -> None:
    names = headgate.simulation.__all__

    assert names == sorted(names)
    assert all(hasattr(headgate.simulation, name) for name in names)


if __name__ == "__main__":
    print(run(workload, seed=int(sys.argv[1])).trace_hash())
