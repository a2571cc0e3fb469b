"""The simulation loop: virtual time, order from a seed, and asyncio's own tools on top of it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.testing import Deadlock, LimitExceeded, SimulationLoop, VirtualClock, run
from tests.unit.testing.traced import workload

YEAR_S = 365 * 86_400.0


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
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    printed = subprocess.run(
        [sys.executable, Path(__file__).with_name("traced.py"), "7"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()

    assert printed == run(workload, seed=7).trace_hash()


def test_random_streams_are_independent_and_repeatable() -> None:
    network, store = SimulationLoop(1).random("network"), SimulationLoop(1).random("store")
    draws = [network.random() for _ in range(3)]

    again = SimulationLoop(1).random("network")

    assert draws == [again.random() for _ in range(3)]
    assert draws[0] != store.random()
    assert draws[0] != SimulationLoop(2).random("network").random()


# Deadlock and limits.


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


# Asyncio's own tools.


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
