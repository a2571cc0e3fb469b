"""Tasks and futures: the same order in every process."""

import asyncio

from headgate.testing import SimulationLoop, VirtualClock, run


def test_sets_of_tasks_and_futures_iterate_in_order_of_creation() -> None:
    async def main(loop: SimulationLoop) -> None:
        futures = [loop.create_future() for _ in range(50)]
        tasks = [asyncio.create_task(VirtualClock(loop).sleep(1)) for _ in range(50)]

        assert sorted(futures, key=hash) == futures
        assert sorted(tasks, key=hash) == tasks
        assert len({*futures, *tasks}) == 100

    run(main)
