"""Clocks: the machine's, and the one that tests move."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.base.clock import FastClock, ManualClock, SystemClock
from headgate.testing import SimulationLoop, run

START = datetime(2026, 3, 1, tzinfo=UTC)


def test_the_machine_tells_the_time_in_utc_and_its_seconds_never_run_backwards() -> None:
    clock = SystemClock()
    readings = [clock.monotonic() for _ in range(100)]

    assert clock.now().utcoffset() == timedelta(0)
    assert readings == sorted(readings)


def test_the_machine_sleeps_on_the_running_loop() -> None:
    async def main(loop: SimulationLoop) -> float:
        await SystemClock().sleep(90)
        return loop.time()

    assert run(main) == 90.0


async def test_a_manual_clock_stands_still_until_it_is_moved_or_slept_by() -> None:
    clock = ManualClock(START)

    assert (clock.now(), clock.now()) == (START, START)

    clock.advance(1.5)
    await clock.sleep(3600)
    assert clock.now() == START + timedelta(seconds=3601.5)


@given(st.lists(st.integers(0, 10**6), max_size=20))
def test_a_manual_clock_s_seconds_go_along_with_its_time(steps: list[int]) -> None:
    clock = ManualClock(START)
    began = clock.monotonic()

    for seconds in steps:
        clock.advance(seconds)

    assert clock.monotonic() - began == pytest.approx(sum(steps))
    assert clock.now() == START + timedelta(seconds=sum(steps))


async def test_a_fast_clock_runs_as_many_times_as_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given real time that goes by in quarters of a second
    real_s = [100.0]
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("headgate.base.clock.time.monotonic", lambda: real_s[0])
    monkeypatch.setattr("headgate.base.clock.asyncio.sleep", sleep)
    clock = FastClock(240)
    began = clock.now()

    real_s[0] += 0.25
    await clock.sleep(60)

    # Then each is a minute, and a minute's sleep is as short
    assert clock.monotonic() == 60.0
    assert clock.now() - began == timedelta(minutes=1)
    assert slept == [0.25]
