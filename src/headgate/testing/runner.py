"""Runs one simulation: the main task, the cleaning up, and the check for unhandled errors.

The module decides what makes a run fail. The loop decides what runs next, and when.
"""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from headgate.testing.loop import STEP_LIMIT, TIME_LIMIT_S, SimulationLoop, check_no_loop_runs

T = TypeVar("T")

WIND_DOWN_STEPS = 100_000  # what cancelled tasks may still use once a limit was hit ...
WIND_DOWN_S = 30 * 86_400.0  # ... in steps and in virtual time


class UnhandledTaskError(ExceptionGroup[Exception]):
    """Tasks or callbacks failed, and nobody handled their exceptions."""


def run(
    main: Callable[[SimulationLoop], Coroutine[Any, Any, T]] | Coroutine[Any, Any, T],
    *,
    seed: int | None = None,
    step_limit: int = STEP_LIMIT,
    time_limit_s: float = TIME_LIMIT_S,
) -> T:
    """Run `main` on a loop of its own, cancel the tasks that are left, and close the loop.

    An exception gets `SimulationLoop.report` as a note, so that the run can be repeated.
    """
    check_no_loop_runs()
    loop = SimulationLoop(seed, step_limit=step_limit, time_limit_s=time_limit_s)
    try:
        coro = main(loop) if callable(main) else main
        try:
            result = loop.run_until_complete(loop.create_task(coro, name="main"))
        finally:
            _wind_down(loop)
        if unhandled := loop.unhandled():
            raise UnhandledTaskError("nobody handled what these tasks raised", unhandled)
        return result
    except BaseException as error:
        loop.unhandled()  # looks for more, to be in the report
        error.add_note(loop.report())
        raise
    finally:
        loop.close()


def _wind_down(loop: SimulationLoop) -> None:
    gc.collect()  # finds the failed futures that died in a reference cycle
    loop.step_limit = max(loop.step_limit, loop.steps + WIND_DOWN_STEPS)
    loop.time_limit_s = max(loop.time_limit_s, loop.time() + WIND_DOWN_S)
    for host in loop.hosts.values():
        host.resume()
    loop.run_until_complete(loop.create_task(_end_all(loop), name="wind-down"))


async def _end_all(loop: SimulationLoop) -> None:
    """Cancel the tasks of living hosts and of no host, then close the async generators."""
    own = asyncio.current_task(loop)
    while pending := [task for task in loop.tasks if task is not own]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending)
    await loop.shutdown_asyncgens()
