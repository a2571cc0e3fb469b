"""Clocks: the machine's, and the one that tests move."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.base.clock import ManualClock, SystemClock
from headgate.simulation import SimulationLoop, run

START = datetime(2026, 3, 1, tzinfo=UTC)


def test_the_machine_tells_the_time_in_utc() -> None:
    assert SystemClock().now().utcoffset() == timedelta(0)


def test_the_machine_s_seconds_never_run_backwards() -> None:
    clock = SystemClock()
    readings = [clock.monotonic() for _ in range(100)]

    assert readings == sorted(readings)


def test_the_machine_sleeps_on_the_running_loop() -> None:
    async def main(loop: SimulationLoop) -> float:
        await SystemClock().sleep(90)
        return loop.time()

    assert run(main) == 90.0


def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(START)

    assert (clock.now(), clock.now()) == (START, START)

    clock.advance(1.5)
    assert clock.now() == START + timedelta(seconds=1.5)


@given(st.lists(st.integers(0, 10**6), max_size=20))
def test_a_manual_clock_s_seconds_go_along_with_its_time(steps: list[int]) -> None:
    clock = ManualClock(START)
    began = clock.monotonic()

    for seconds in steps:
        clock.advance(seconds)

    assert clock.monotonic() - began == pytest.approx(sum(steps))
    assert clock.now() == START + timedelta(seconds=sum(steps))


async def test_sleeping_moves_a_manual_clock_at_once() -> None:
    clock = ManualClock(START)

    await clock.sleep(3600)

    assert clock.now() == START + timedelta(hours=1)
