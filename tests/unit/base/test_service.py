"""The life of a service, in virtual time."""

import asyncio
import io
import json
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

import pytest

from headgate.base.clock import Clock, ManualClock
from headgate.base.log import configure
from headgate.base.service import FAILURE_REST_S, FAILURE_REST_S_MAX, Service
from headgate.testing import SimulationLoop, VirtualClock, run

#: What one round does: it gets a clock and its number, and says how long to rest.
Round = Callable[[Clock, int], Awaitable[float | None]]


class Scripted(Service):
    """A service that notes when each round began and ended."""

    name = "scripted"

    def __init__(self, loop: SimulationLoop, script: Round) -> None:
        super().__init__(VirtualClock(loop))
        self._loop = loop
        self._script = script
        self.began: list[float] = []
        self.ended: list[float] = []

    async def run_once(self) -> float | None:
        self.began.append(self._loop.time())
        try:
            return await self._script(VirtualClock(self._loop), len(self.began))
        finally:
            self.ended.append(self._loop.time())


class Life(NamedTuple):
    """When its rounds began and ended, and when it was over."""

    began: list[float]
    ended: list[float]
    over: float


def live(script: Round, *steps: float | str, seed: int | None = None) -> Life:
    """The life of a service; each step is one of its methods, or for how long to let it be."""

    async def main(loop: SimulationLoop) -> Life:
        service = Scripted(loop, script)
        for step in steps:
            if not isinstance(step, str):
                await VirtualClock(loop).sleep(step)
            elif (called := getattr(service, step)()) is not None:
                await called
        return Life(service.began, service.ended, loop.time())

    return run(main, seed=seed)


@pytest.fixture(autouse=True)
def log() -> Iterator[io.StringIO]:
    """What the services log."""
    clock, stream = ManualClock(datetime(2026, 3, 1, tzinfo=UTC)), io.StringIO()
    configure(clock, json=True, stream=stream)
    yield stream
    configure(clock, json=True, level="critical", stream=io.StringIO())


def rounds(*, take_s: float = 0.0, rest_s: float | None = None) -> Round:
    """Rounds that take so long, and ask for such a rest."""

    async def script(clock: Clock, _: int) -> float | None:
        if take_s:
            await clock.sleep(take_s)
        return rest_s

    return script


EVERY_TEN_SECONDS, ONCE = rounds(rest_s=10.0), rounds()
LONG = rounds(take_s=30.0, rest_s=0.0)


# Rounds and rests.


def test_a_round_follows_the_other_after_the_rest_it_asked_for() -> None:
    assert live(EVERY_TEN_SECONDS, "start", 35, "stop").began == [0, 10, 20, 30]


def test_a_rest_without_an_end_lasts_until_a_nudge() -> None:
    assert live(ONCE, "start", 86_400, "nudge", 1, "stop").began == [0, 86_400]


def test_a_rest_of_nothing_lets_the_others_run() -> None:
    assert len(live(rounds(rest_s=0.0), "start", *([0.0] * 100), "stop").began) > 1


def test_a_nudge_cuts_a_rest_short() -> None:
    assert live(EVERY_TEN_SECONDS, "start", 3, "nudge", "nudge", 11, "stop").began == [0, 3, 13]


def test_a_nudge_during_a_round_is_not_lost() -> None:
    assert live(rounds(take_s=5.0), "start", 2, "nudge", 60, "stop").began == [0, 5]


def test_a_nudge_before_the_start_asks_for_nothing_more_than_the_first_round() -> None:
    assert live(ONCE, "nudge", "start", 60, "stop").began == [0]


# Start and stop.


@pytest.mark.parametrize("seed", range(5))
def test_starting_twice_makes_one_loop(seed: int) -> None:
    assert live(EVERY_TEN_SECONDS, "start", "start", 15, "stop", seed=seed).began == [0, 10]


def test_stopping_waits_for_the_round_it_is_in() -> None:
    life = live(LONG, "start", 1, "stop")

    assert (life.ended, life.over) == ([30], 30)


def test_stopping_does_not_wait_for_a_rest() -> None:
    assert live(ONCE, "start", 1, "stop").over == 1


def test_stopping_twice_is_fine() -> None:
    assert live(EVERY_TEN_SECONDS, "start", 1, "stop", "stop").began == [0]


@pytest.mark.parametrize("seed", range(5))
def test_two_may_stop_it_at_once_and_both_wait_for_the_end(seed: int) -> None:
    async def main(loop: SimulationLoop) -> list[float]:
        service, ends = Scripted(loop, LONG), list[float]()

        async def stop() -> None:
            await service.stop()
            ends.append(loop.time())

        await service.start()
        await VirtualClock(loop).sleep(1)
        await asyncio.gather(stop(), stop())
        return ends

    assert run(main, seed=seed) == [30, 30]


def test_a_stop_that_ran_out_of_patience_cuts_no_round_short_and_can_be_repeated() -> None:
    async def main(loop: SimulationLoop) -> tuple[float, list[float]]:
        # Given a service in a long round
        service = Scripted(loop, LONG)
        await service.start()
        await VirtualClock(loop).sleep(1)

        # When whoever stops it waits for five seconds only, and then once more
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await service.stop()
        assert loop.time() == 6
        await service.stop()
        return loop.time(), service.ended

    # Then the round came to its end
    assert run(main) == (30, [30])


def test_stopping_before_starting_is_fine_and_the_loop_never_runs() -> None:
    assert live(EVERY_TEN_SECONDS, "stop", "start", 60, "stop").began == []


def test_a_stopped_service_stays_stopped() -> None:
    assert live(EVERY_TEN_SECONDS, "start", 1, "stop", "start", "nudge", 60).began == [0]


def test_a_service_that_was_stopped_at_once_does_no_round() -> None:
    assert live(EVERY_TEN_SECONDS, "start", "stop").began == []


# Failure.


async def failing(_: Clock, number: int) -> float | None:
    raise ConnectionError("password=hunter2")


@pytest.mark.fault(40)
def test_a_failing_round_backs_off_and_goes_on() -> None:
    began = live(failing, "start", 300, "stop").began

    rests = [after - before for before, after in pairwise(began)]
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert (rests[0], rests[-1]) == (FAILURE_REST_S, FAILURE_REST_S_MAX)


def test_a_round_that_works_starts_the_backoff_anew() -> None:
    async def flaky(clock: Clock, number: int) -> float | None:
        return 100.0 if number == 4 else await failing(clock, number)

    # It fails three times, rests as it asked to, and fails again.
    assert live(flaky, "start", 111, "stop").began == [0, 1, 3, 7, 107, 108, 110]


def test_a_failing_round_is_told_without_its_secrets(log: io.StringIO) -> None:
    live(failing, "start", 0.5, "stop")

    [event] = [json.loads(line) for line in log.getvalue().splitlines()]
    assert (event["event"], event["level"]) == ("round_failed", "error")
    assert event["service"] == "scripted"
    assert event["error"] == "ConnectionError: password=[redacted]"


def test_a_failing_service_stops_at_once_when_asked() -> None:
    assert live(failing, "start", 200, "stop").over == 200


def test_a_round_that_fails_while_it_is_being_stopped_ends_the_loop_in_peace() -> None:
    async def slow_failure(clock: Clock, number: int) -> float | None:
        await clock.sleep(10)
        return await failing(clock, number)

    assert live(slow_failure, "start", 1, "stop").began == [0]
