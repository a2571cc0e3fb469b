"""The event loop of our programs: uvloop if the extra `fast` is installed, else asyncio's own."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from functools import cache
from importlib.util import find_spec
from typing import Any, TypeVar

T = TypeVar("T")

#: New objects between two collections of the youngest; 700 by default. A worker has some hundred
#: chunks at work, and each makes a few dozen objects that live until it is settled.
YOUNG_MAX = 10_000


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end, as `asyncio.run` does."""
    _calm_collector()
    with asyncio.Runner(loop_factory=_fast_loop()) as runner:
        return runner.run(main)


@cache
def _calm_collector() -> None:
    """Let the garbage collector look at what a program makes, and not at its modules each time.

    It took a fifth of the time of a worker with many small chunks. Once in a process, because what
    is frozen is never collected.
    """
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, *gc.get_threshold()[1:])


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop
