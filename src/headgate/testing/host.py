"""Hosts: simulated processes that crash, restart, pause, and have clocks of their own.

The module owns the mark by which code belongs to a host, and keeps what a crashed host left. The
loop decides the order in which hosts run.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import warnings
from collections.abc import Coroutine, Iterable
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from headgate.testing.task import Task

if TYPE_CHECKING:
    from headgate.testing.loop import SimulationLoop

T = TypeVar("T")

CLOSE_TRIES = 8

_HOST: ContextVar[Host | None] = ContextVar("headgate_simulation_host", default=None)

# A crashed process never runs again, not even a `finally`. But when a suspended coroutine loses its
# last reference, Python closes it and runs its `finally` blocks, and a frame cannot be discarded
# otherwise. So crashed hosts are kept here until `release_frozen`. The extra reference is on
# purpose: at exit the interpreter clears module globals, and would empty the list.
_FROZEN: list[Host] = []
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_FROZEN))


class Host:
    """One incarnation of a simulated process; `SimulationLoop.host` creates it.

    Its code is every handle whose context names the host: its tasks, their children and timers.
    """

    def __init__(self, loop: SimulationLoop, name: str, incarnation: int = 1) -> None:
        self.name = name
        self.incarnation = incarnation
        #: How far its wall clock is ahead; set it at any time to make the clock jump.
        self.skew_s = 0.0
        #: How many seconds its wall clock gains per second since the start of the run.
        self.drift = 0.0
        self.crashed = False
        self.paused = False
        self._loop = loop
        self._held: list[Any] = []  # handles that came up in a pause; after a crash, all it had

    def __str__(self) -> str:
        return f"{self.name}#{self.incarnation}"

    def spawn(self, coro: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Start a task in this process, which shares no context variable with the caller."""
        if self.crashed:
            coro.close()
            raise RuntimeError(f"{self} has crashed: use the host that restart() returns")
        context = Context()
        context.run(_HOST.set, self)
        return self._loop.create_task(coro, name=name, context=context)

    def crash(self) -> None:
        """Stop for good, as by SIGKILL: no handle of this host runs again, and no `finally`."""
        if current_host() is self and asyncio.current_task(self._loop) is not None:
            # Returning would let the dead process run on until its next await.
            raise RuntimeError(f"{self} cannot crash itself this way: await crash_here()")
        self._die()

    async def crash_here(self) -> NoReturn:
        """Crash the host that runs this line: the await never returns."""
        if current_host() is not self:
            raise RuntimeError(f"{self} is not the running host: call crash()")
        self._die()
        await self._loop.create_future()
        raise AssertionError("a crashed host ran on")

    def _die(self) -> None:
        if not self.crashed:
            self.crashed, self.paused = True, False
            self.freeze(self._loop.disown(self))
            self._loop.note(f"{self} crashed")

    def pause(self) -> None:
        """Hold back this host's handles, as by SIGSTOP, until `resume`."""
        if not self.crashed and not self.paused:
            self.paused = True
            self._loop.note(f"{self} paused")

    def resume(self) -> None:
        """Let the host run again; timers that came due meanwhile fire now."""
        if self.paused:
            self.paused = False
            self._loop.readmit(self._held)
            self._held = []
            self._loop.note(f"{self} resumed")

    def restart(self) -> Host:
        """Crash the host if it still runs, and return the next incarnation, with the same clock."""
        self.crash()
        successor = Host(self._loop, self.name, self.incarnation + 1)
        successor.skew_s, successor.drift = self.skew_s, self.drift
        self._loop.hosts[self.name] = successor
        return successor

    def withholds(self, handle: asyncio.Handle) -> bool:
        """Whether a handle of this host may not run now; if so, the host keeps it."""
        if stopped := self.paused or self.crashed:
            self._held.append(handle)
        return stopped

    def freeze(self, remains: Iterable[object]) -> None:
        """Prevent `remains` from being finalised."""
        self._held.extend(remains)
        _FROZEN.append(self)


def current_host() -> Host | None:
    """Return the host whose code is running; None outside all hosts."""
    return _HOST.get()


def host_of(code: Any) -> Host | None:
    """Return the host that a handle or a task belongs to."""
    host: Host | None = code._context.get(_HOST)
    return host


def release_frozen() -> None:
    """Release the memory and files of the crashed hosts of closed loops.

    This runs their `finally` blocks, so call it when the verdict on a run is known. The blocks run
    in their host's context, so a port can refuse them by `current_host().crashed`.
    """
    with warnings.catch_warnings():
        # What they would do next, such as to sleep, has no loop any more and is never awaited.
        warnings.simplefilter("ignore", RuntimeWarning)
        for host in [host for host in _FROZEN if host._loop.is_closed()]:
            for task in [held for held in host._held if isinstance(held, Task)]:
                for _ in range(CLOSE_TRIES):  # a `finally` that awaits takes another try
                    with contextlib.suppress(BaseException):
                        task._context.run(task.get_coro().close)
                        break
            host._held.clear()
            _FROZEN.remove(host)
