"""The provider's own count of requests, which judges the budget in simulations."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from headgate.base.errors import Transient
from headgate.model.budget import Budget, Limit
from headgate.testing.loop import SimulationLoop
from headgate.testing.runner import run
from headgate.testing.virtual_clock import VirtualClock
from tests.simulation.request_meter import RequestMeter

BUDGET = Budget("photos", [Limit(2, per="60s")], guard_s=2.0)


def send(meter: RequestMeter) -> None:
    with meter.arriving(0.0):
        pass


def findings_of(
    act: Callable[[RequestMeter, VirtualClock], Coroutine[Any, Any, None]],
) -> list[str]:
    async def main(loop: SimulationLoop) -> list[str]:
        meter = RequestMeter(loop, BUDGET)
        await act(meter, VirtualClock(loop))
        return list(meter.findings())

    return run(main)


def test_more_requests_in_a_window_than_allowed_are_found() -> None:
    async def act(meter: RequestMeter, clock: VirtualClock) -> None:
        for _ in range(3):
            await clock.sleep(10)
            send(meter)
        assert meter.counts() == {"60s": 3}

    [found] = findings_of(act)
    assert "3 requests" in found and "allows 2" in found


def test_each_window_is_counted_by_itself() -> None:
    async def act(meter: RequestMeter, clock: VirtualClock) -> None:
        for _ in range(4):
            await clock.sleep(29)
            send(meter)
        assert meter.counts() == {"60s": 2}

    assert findings_of(act) == []


def test_a_request_counts_where_it_arrives_whenever_it_was_sent() -> None:
    async def act(meter: RequestMeter, clock: VirtualClock) -> None:
        await clock.sleep(50)
        for _ in range(3):
            with meter.arriving(11.0):
                pass

    [found] = findings_of(act)
    assert "3 requests" in found


def test_a_request_that_is_given_up_before_it_arrives_does_not_arrive() -> None:
    async def act(meter: RequestMeter, clock: VirtualClock) -> None:
        for given_up_s in (5.0, 5.0, 10.0, 15.0):
            with suppress(Transient), meter.arriving(10.0):
                await clock.sleep(given_up_s)
                raise Transient("given up")
        assert meter.arrivals == 2

    assert findings_of(act) == []
