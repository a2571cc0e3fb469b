"""The life of a service, in virtual time."""

import asyncio
import io
import json
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from headgate.base.clock import ManualClock
from headgate.base.log import configure
from headgate.base.service import FAILURE_REST_S, FAILURE_REST_S_MAX, Service
from headgate.simulation import SimulationLoop, VirtualClock, run

#: What one round does: it gets its number, and says how long to rest.
Round = Callable[[int], Awaitable[float | None]]


class Scripted(Service):
    """A service that notes when each round began."""

    name = "scripted"

    def __init__(self, loop: SimulationLoop, script: Round) -> None:
        super().__init__(VirtualClock(loop))
        self._loop = loop
        self._script = script
        self.rounds: list[float] = []

    async def run_once(self) -> float | None:
        self.rounds.append(self._loop.time())
        return await self._script(len(self.rounds))


@pytest.fixture(autouse=True)
def log() -> Iterator[io.StringIO]:
    """What the services log."""
    clock, stream = ManualClock(datetime(2026, 3, 1, tzinfo=UTC)), io.StringIO()
    configure(clock, json=True, stream=stream)
    yield stream
    configure(clock, json=True, level="critical", stream=io.StringIO())


async def every_ten_seconds(_: int) -> float | None:
    return 10.0


async def once(_: int) -> float | None:
    return None


def rounds_of(script: Round, *, until_s: float) -> list[float]:
    """When the rounds begin of a service that is stopped after `until_s`."""

    async def main(loop: SimulationLoop) -> list[float]:
        service = Scripted(loop, script)
        await service.start()
        await VirtualClock(loop).sleep(until_s)
        await service.stop()
        return service.rounds

    return run(main)


# Rounds and rests.


def test_a_round_follows_the_other_after_the_rest_it_asked_for() -> None:
    assert rounds_of(every_ten_seconds, until_s=35) == [0, 10, 20, 30]


def test_a_rest_without_an_end_lasts_until_a_nudge() -> None:
    async def main(loop: SimulationLoop) -> list[float]:
        service = Scripted(loop, once)
        await service.start()
        await VirtualClock(loop).sleep(86_400)
        service.nudge()
        await VirtualClock(loop).sleep(1)
        await service.stop()
        return service.rounds

    assert run(main) == [0, 86_400]


def test_a_rest_of_nothing_lets_the_others_run() -> None:
    async def main(loop: SimulationLoop) -> int:
        async def restless(_: int) -> float | None:
            return 0.0

        service = Scripted(loop, restless)
        await service.start()
        for _ in range(100):
            await VirtualClock(loop).sleep(0)
        await service.stop()
        return len(service.rounds)

    assert run(main) > 1


def test_a_nudge_cuts_a_rest_short() -> None:
    async def main(loop: SimulationLoop) -> list[float]:
        service = Scripted(loop, every_ten_seconds)
        await service.start()
        await VirtualClock(loop).sleep(3)
        service.nudge()
        service.nudge()
        await VirtualClock(loop).sleep(11)
        await service.stop()
        return service.rounds

    assert run(main) == [0, 3, 13]


def test_a_nudge_during_a_round_is_not_lost() -> None:
    async def main(loop: SimulationLoop) -> list[float]:
        async def slow(_: int) -> float | None:
            await VirtualClock(loop).sleep(5)
            return None

        service = Scripted(loop, slow)
        await service.start()
        await VirtualClock(loop).sleep(2)
        service.nudge()
        await VirtualClock(loop).sleep(60)
        await service.stop()
        return service.rounds

    assert run(main) == [0, 5]


def test_a_nudge_before_the_start_asks_for_nothing_more_than_the_first_round() -> None:
    async def main(loop: SimulationLoop) -> list[float]:
        service = Scripted(loop, once)
        service.nudge()
        await service.start()
        await VirtualClock(loop).sleep(60)
        await service.stop()
        return service.rounds

    assert run(main) == [0]


# Start and stop.


@pytest.mark.parametrize("seed", range(5))
def test_starting_twice_makes_one_loop(seed: int) -> None:
    async def main(loop: SimulationLoop) -> list[float]:
        service = Scripted(loop, every_ten_seconds)
        await service.start()
        await service.start()
        await VirtualClock(loop).sleep(15)
        await service.stop()
        return service.rounds

    assert run(main, seed=seed) == [0, 10]


def test_stopping_waits_for_the_round_it_is_in() -> None:
    finished: list[float] = []

    async def main(loop: SimulationLoop) -> float:
        async def slow(_: int) -> float | None:
            await VirtualClock(loop).sleep(30)
            finished.append(loop.time())
            return 0.0

        service = Scripted(loop, slow)
        await service.start()
        await VirtualClock(loop).sleep(1)
        await service.stop()
        return loop.time()

    assert run(main) == 30
    assert finished == [30]


def test_stopping_does_not_wait_for_a_rest() -> None:
    async def main(loop: SimulationLoop) -> float:
        service = Scripted(loop, once)
        await service.start()
        await VirtualClock(loop).sleep(1)
        await service.stop()
        return loop.time()

    assert run(main) == 1


def test_stopping_twice_is_fine() -> None:
    async def main(loop: SimulationLoop) -> list[float]:
        service = Scripted(loop, every_ten_seconds)
        await service.start()
        await VirtualClock(loop).sleep(1)
        await service.stop()
        await service.stop()
        return service.rounds

    assert run(main) == [0]


@pytest.mark.parametrize("seed", range(5))
def test_two_may_stop_it_at_once_and_both_wait_for_the_end(seed: int) -> None:
    async def main(loop: SimulationLoop) -> list[float]:
        async def slow(_: int) -> float | None:
            await VirtualClock(loop).sleep(30)
            return 0.0

        service = Scripted(loop, slow)
        ends: list[float] = []

        async def stop() -> None:
            await service.stop()
            ends.append(loop.time())

        await service.start()
        await VirtualClock(loop).sleep(1)
        await asyncio.gather(stop(), stop())
        return ends

    assert run(main, seed=seed) == [30, 30]


def test_a_stop_that_ran_out_of_patience_cuts_no_round_short_and_can_be_repeated() -> None:
    finished: list[float] = []

    async def main(loop: SimulationLoop) -> float:
        # Given a service in a long round
        async def slow(_: int) -> float | None:
            await VirtualClock(loop).sleep(30)
            finished.append(loop.time())
            return 0.0

        service = Scripted(loop, slow)
        await service.start()
        await VirtualClock(loop).sleep(1)

        # When whoever stops it waits for five seconds only, and then once more
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await service.stop()
        assert loop.time() == 6
        await service.stop()
        return loop.time()

    # Then the round came to its end
    assert run(main) == 30
    assert finished == [30]


def test_stopping_before_starting_is_fine_and_the_loop_never_runs() -> None:
    async def main(loop: SimulationLoop) -> list[float]:
        service = Scripted(loop, every_ten_seconds)
        await service.stop()
        await service.start()
        await VirtualClock(loop).sleep(60)
        await service.stop()
        return service.rounds

    assert run(main) == []


def test_a_stopped_service_stays_stopped() -> None:
    async def main(loop: SimulationLoop) -> list[float]:
        service = Scripted(loop, every_ten_seconds)
        await service.start()
        await VirtualClock(loop).sleep(1)
        await service.stop()
        await service.start()
        service.nudge()
        await VirtualClock(loop).sleep(60)
        return service.rounds

    assert run(main) == [0]


def test_a_service_that_was_stopped_at_once_does_no_round() -> None:
    async def main(loop: SimulationLoop) -> list[float]:
        service = Scripted(loop, every_ten_seconds)
        await service.start()
        await service.stop()
        return service.rounds

    assert run(main) == []


# Failure.


async def failing(_: int) -> float | None:
    raise ConnectionError("password=hunter2")


@pytest.mark.fault(40)
def test_a_failing_round_backs_off_and_goes_on() -> None:
    began = rounds_of(failing, until_s=300)

    rests = [after - before for before, after in pairwise(began)]
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert (rests[0], rests[-1]) == (FAILURE_REST_S, FAILURE_REST_S_MAX)


def test_a_round_that_works_starts_the_backoff_anew() -> None:
    async def flaky(number: int) -> float | None:
        if number == 4:
            return 100.0
        return await failing(number)

    # It fails three times, rests as it asked to, and fails again.
    assert rounds_of(flaky, until_s=111) == [0, 1, 3, 7, 107, 108, 110]


def test_a_failing_round_is_told_without_its_secrets(log: io.StringIO) -> None:
    rounds_of(failing, until_s=0.5)

    [event] = [json.loads(line) for line in log.getvalue().splitlines()]
    assert (event["event"], event["level"]) == ("round_failed", "error")
    assert event["service"] == "scripted"
    assert event["error"] == "ConnectionError: password=[redacted]"


def test_a_failing_service_stops_at_once_when_asked() -> None:
    async def main(loop: SimulationLoop) -> float:
        service = Scripted(loop, failing)
        await service.start()
        await VirtualClock(loop).sleep(200)
        await service.stop()
        return loop.time()

    assert run(main) == 200


def test_a_round_that_fails_while_it_is_being_stopped_ends_the_loop_in_peace() -> None:
    async def main(loop: SimulationLoop) -> list[float]:
        async def slow_failure(number: int) -> float | None:
            await VirtualClock(loop).sleep(10)
            return await failing(number)

        service = Scripted(loop, slow_failure)
        await service.start()
        await VirtualClock(loop).sleep(1)
        await service.stop()
        return service.rounds

    assert run(main) == [0]
