"""The virtual clock: the Clock of base/clock.py, as each host sees it."""

from datetime import UTC, datetime, timedelta

from headgate.base.clock import Clock
from headgate.testing import SimulationLoop, VirtualClock, run


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
