"""A workload whose trace is the same in every process.

Run as a script, with a seed, this file prints the hash of its trace. It imports no more than it
needs: a test starts it.
"""

import asyncio
import sys
from contextlib import suppress

from headgate.testing import SimulationLoop, VirtualClock, run


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
    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(wait_for_ever(number))
            group.create_task(fail())
    host.crash()
    return loop


if __name__ == "__main__":
    print(run(workload, seed=int(sys.argv[1])).trace_hash())
