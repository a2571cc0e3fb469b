"""The provider's own count of requests, which judges the budget in simulations."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from headgate.model.budget import Budget, Granted, Limit, to_ms
from headgate.simulation.deployment import START
from headgate.simulation.loop import SimulationLoop
from headgate.simulation.request_meter import RequestMeter
from headgate.simulation.runner import run
from headgate.simulation.virtual_clock import VirtualClock

BUDGET = Budget("photos", [Limit(2, per="60s")], guard_s=2.0)


def grant(at_s: float) -> Granted:
    return Granted(
        id="grant", at_ms=to_ms(START) + int(at_s * 1000), remaining=None, resets_at=None
    )


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
            meter.arrive()
        assert meter.counts() == {"60s": 3}

    [found] = findings_of(act)
    assert "3 requests" in found and "allows 2" in found


def test_each_window_is_counted_by_itself() -> None:
    async def act(meter: RequestMeter, clock: VirtualClock) -> None:
        for _ in range(4):
            await clock.sleep(29)
            meter.arrive()
        assert meter.counts() == {"60s": 2}

    assert findings_of(act) == []


def test_a_request_that_was_long_on_its_way_is_not_held_against_the_next_window() -> None:
    async def act(meter: RequestMeter, clock: VirtualClock) -> None:
        await clock.sleep(61)
        for granted_s in (58.0, 60.5, 60.5):
            meter.granted(grant(granted_s))
            meter.arrive()

    assert findings_of(act) == []


def test_one_that_was_on_its_way_within_the_guard_is() -> None:
    async def act(meter: RequestMeter, clock: VirtualClock) -> None:
        await clock.sleep(61)
        for granted_s in (59.5, 60.5, 60.5):
            meter.granted(grant(granted_s))
            meter.arrive()

    assert len(findings_of(act)) == 1


def test_a_grant_is_that_of_the_task_that_asked() -> None:
    async def act(meter: RequestMeter, clock: VirtualClock) -> None:
        async def send(granted_s: float) -> None:
            meter.granted(grant(granted_s))
            await clock.sleep(1)
            meter.arrive()

        await clock.sleep(61)
        await asyncio.gather(send(50.0), send(61.0), send(61.0), send(50.0))

    assert findings_of(act) == []
