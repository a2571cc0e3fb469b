"""A deterministic asyncio loop: virtual time, and one decision, which the seed makes.

The module decides what runs next, and when. Crashes and pauses of hosts are in `host.py`; how a run
begins, ends and fails is in `runner.py`.

The same program and seed give the same run, in any process, because nothing else decides:

* time does not move while anything can run, then jumps to the next timer;
* one draw from the seed picks which ready handle runs next (seed None: first in, first out);
* tasks and futures are named and hashed by a count of this loop's own, so that a set of them, as
  `asyncio.wait` and `TaskGroup` keep, iterates in the same order everywhere;
* the garbage collector, which runs finalisers, runs only at fixed steps;
* there are no threads, sockets, signals or subprocesses: using one raises `NotSimulated`.

The caller must not iterate a set of other objects (`asyncio.as_completed` does so with coroutines:
pass tasks), and must inject clocks, ids and randomness (`SimulationLoop.random`).
"""

import asyncio
import gc
import hashlib
import heapq
import itertools
import random
import sys
import threading
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextvars import Context, copy_context
from typing import Any, TypeVar, TypeVarTuple
from weakref import WeakKeyDictionary

from headgate.testing.host import Host, current_host, host_of
from headgate.testing.not_simulated import NotSimulated, UnrealLoop
from headgate.testing.task import Future, Task, describe, task_of, where

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Callback = Callable[..., object]
Code = Generator[Any, None, T] | Coroutine[Any, Any, T]

STEP_LIMIT = 5_000_000  # about half a minute of real time
TIME_LIMIT_S = 100 * 365 * 86_400.0
EVENTS_KEPT = 50
STEPS_KEPT = 10
COLLECT_EVERY_STEPS = 100_000
TIMERS_MIN = 1_024  # fewer cancelled timers than this are not worth sweeping out


class Deadlock(RuntimeError):
    """Nothing is ready, no timer is set, and the main future is not done."""


class LimitExceeded(RuntimeError):
    """The run used more steps or more virtual time than it was allowed."""


class SimulationLoop(UnrealLoop):
    """An event loop over virtual time whose order is drawn from `seed`, or is FIFO for None."""

    def __init__(
        self,
        seed: int | None = 0,
        *,
        step_limit: int = STEP_LIMIT,
        time_limit_s: float = TIME_LIMIT_S,
    ) -> None:
        self.seed = seed
        self.step_limit = step_limit
        self.time_limit_s = time_limit_s
        self.steps = 0
        #: The last notes: the application's events, and the crashes and pauses of hosts.
        self.trace: deque[str] = deque(maxlen=EVENTS_KEPT)
        #: The latest incarnation of each host, by name.
        self.hosts: dict[str, Host] = {}
        #: The pending tasks, in order of creation; referenced here, so that none is collected.
        self.tasks: dict[Task[Any], None] = {}
        self._last_steps: deque[str] = deque(maxlen=STEPS_KEPT)
        self._hash = hashlib.sha256()
        self._schedule = None if seed is None else self.random("schedule")
        self._time = 0.0
        self._numbers = itertools.count(1)  # of tasks, futures and timers
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_cancelled = 0  # since the last sweep
        self._asyncgens = WeakKeyDictionary[AsyncGenerator[Any, Any], Host | None]()
        self._failed = WeakKeyDictionary[Task[Any], None]()  # in order of failure
        self._failures: list[Exception] = []
        self._thread_id: int | None = None
        self._closed = False

    # Beyond asyncio's interface: hosts, randomness, the trace.

    def host(self, name: str) -> Host:
        """Return the latest incarnation of this name; the first use creates the first one."""
        return self.hosts.setdefault(name, Host(self, name))

    def random(self, stream: str) -> random.Random:
        """Return a new generator for one purpose, by name: a draw from one changes no other."""
        return random.Random(f"{self.seed}/{stream}")

    def note(self, text: str) -> None:
        """Record an event of the application in the trace."""
        self.trace.append(f"{self._time!r} {current_host() or '-'} {text}")
        self._hash.update(f"note {self.trace[-1]}\n".encode())

    def trace_hash(self) -> str:
        """Return the SHA-256 of all that ran or was noted: equal hashes mean the same run."""
        return self._hash.hexdigest()

    def report(self) -> str:
        """Return what is needed to understand and to repeat this run."""
        lines = [
            f"simulation: seed={self.seed} steps={self.steps} time_s={self._time!r}",
            f"trace: {self.trace_hash()}",
            *(f"unhandled: {error!r}" for error in self._failures),
            *(f"event: {line}" for line in self.trace),
            *(f"step: {line}" for line in self._last_steps),
        ]
        return "\n  ".join(lines)

    # For `Host` only.

    def readmit(self, handles: list[asyncio.Handle]) -> None:
        """Make held-back handles ready, before all that are ready now."""
        self._ready.extendleft(reversed(handles))

    def disown(self, host: Host) -> list[object]:
        """Give a crashed host its tasks and timers; its ready handles follow as they come up."""
        tasks = [task for task in self.tasks if host_of(task) is host]
        for task in tasks:
            del self.tasks[task]
        asyncgens = [agen for agen, owner in self._asyncgens.items() if owner is host]
        timers = [timer for timer in self._timers if host_of(timer[2]) is host]
        return [*tasks, *asyncgens, *timers]

    # Running.

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        """Run until `future` is done; unhandled errors are kept for `unhandled`."""
        check_no_loop_runs()
        assert not isinstance(future, Generator)  # asyncio's interface predates `async def`
        main = asyncio.ensure_future(future, loop=self)
        hooks, collecting = sys.get_asyncgen_hooks(), gc.isenabled()
        gc.disable()
        sys.set_asyncgen_hooks(self._asyncgen_started, self._asyncgen_dropped)
        asyncio._set_running_loop(self)
        self._thread_id = threading.get_ident()
        try:
            while not main.done():
                self._step()
        finally:
            self._thread_id = None
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)
            if collecting:
                gc.enable()
        return main.result()

    def _step(self) -> None:
        if self.steps >= self.step_limit:
            raise LimitExceeded(f"{self.steps} steps and not done{self._pending()}")
        while not self._ready:
            self._advance()
        # The one decision: everything else in a run follows from it.
        index = 0 if self._schedule is None else self._schedule.randrange(len(self._ready))
        handle: Any = self._ready[index]
        del self._ready[index]
        host, task = host_of(handle), task_of(handle)
        if handle.cancelled() or (host is not None and host.withholds(handle)):
            return
        self.steps += 1
        line = f"{self.steps} {self._time!r} {host or '-'} {describe(handle)}"
        self._last_steps.append(line)
        self._hash.update(f"step {line}\n".encode())
        try:
            handle._run()
        finally:  # SystemExit and KeyboardInterrupt come through
            if task is not None and task.done():
                self.tasks.pop(task, None)
                if task._log_traceback:
                    self._failed[task] = None
        if self.steps % COLLECT_EVERY_STEPS == 0:
            gc.collect()

    def _advance(self) -> None:
        """Jump to the next timer that can fire, and make all timers of that time ready."""
        while self._timers and _is_void(self._timers[0][2]):
            heapq.heappop(self._timers)
        if not self._timers:
            raise Deadlock(f"nothing can run any more at {self._time!r} s{self._pending()}")
        when = self._timers[0][0]
        if when > self.time_limit_s:
            raise LimitExceeded(f"the next timer is only at {when!r} s{self._pending()}")
        self._time = when
        while self._timers and self._timers[0][0] <= when:
            self._ready.append(heapq.heappop(self._timers)[2])

    def _pending(self) -> str:
        lines = [
            *(f"{host_of(task) or '-'} {where(task)}" for task in self.tasks),
            *(f"{host} is crashed" for host in self.hosts.values() if host.crashed),
            *(f"{host} is paused" for host in self.hosts.values() if host.paused),
        ]
        return "; pending tasks:" + "".join(f"\n  {line}" for line in lines)

    # The end of a run.

    def unhandled(self) -> list[Exception]:
        """Return the errors of tasks and callbacks that nobody handled."""
        for task in list(self._failed):
            host = host_of(task)
            # A crashed host might have handled its errors, had it lived.
            if task._log_traceback and not (host and host.crashed):
                message = "Task exception was never retrieved"
                error = task.exception()
                self.call_exception_handler({"message": message, "exception": error, "task": task})
        return self._failures

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep an unhandled error, which fails the run."""
        error = context.get("exception")
        if not isinstance(error, Exception):
            kept = RuntimeError(context["message"])
            kept.__cause__ = error
            error = kept
        task = context.get("task") or context.get("future")
        name = f": {task.get_name()}" if isinstance(task, asyncio.Task) else ""
        error.add_note(f"{context['message']}{name}")
        self._failures.append(error)

    def _asyncgen_started(self, agen: AsyncGenerator[Any, Any]) -> None:
        self._asyncgens[agen] = current_host()

    def _asyncgen_dropped(self, agen: AsyncGenerator[Any, Any]) -> None:
        if not self._closed:
            self.call_soon(self.create_task, agen.aclose())

    async def shutdown_asyncgens(self) -> None:
        """Close the async generators that nobody finished, except those of crashed hosts."""
        living = [agen for agen, host in self._asyncgens.items() if not (host and host.crashed)]
        if closing := [self.create_task(agen.aclose()) for agen in living]:
            await asyncio.wait(closing)

    def close(self) -> None:
        """Refuse further work, and freeze the tasks that refused to end, as if they had crashed."""
        if self.is_running():
            raise RuntimeError("cannot close a running loop")
        self._closed = True
        if self.tasks:
            Host(self, "unfinished").freeze(self.tasks)

    # Scheduling: asyncio's interface.

    def time(self) -> float:
        """Virtual seconds since the start of the run."""
        return self._time

    def call_soon(
        self, callback: Callback, *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        """Make a callback ready."""
        self._check_open()
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callback, *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        """Make a callback ready, from the loop's own thread only."""
        if self._thread_id not in {None, threading.get_ident()}:
            raise NotSimulated("a simulation has no threads: the seed does not decide their order")
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callback, *args: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Make a callback ready after `delay` virtual seconds."""
        return self.call_at(self._time + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callback, *args: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Make a callback ready at the virtual time `when`."""
        self._check_open()
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        if when <= self._time:
            self._ready.append(timer)
        elif when > self._time:
            heapq.heappush(self._timers, (when, next(self._numbers), timer))
        else:
            raise ValueError("a deadline must be a number")
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Remove the cancelled timers once there are many; a few are skipped as they come up."""
        self._timers_cancelled += 1
        if self._timers_cancelled > max(TIMERS_MIN, len(self._timers) // 2):
            self._timers_cancelled = 0
            self._timers = [timer for timer in self._timers if not timer[2].cancelled()]
            heapq.heapify(self._timers)

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future with a reproducible hash."""
        return Future(next(self._numbers), self)

    def create_task(
        self, coro: Code[T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        """Return a task with a reproducible name and hash; the loop keeps it until it is done."""
        number = next(self._numbers)
        context = copy_context() if context is None else context
        task: Task[T] = Task(coro, number, name or f"task-{number}", self, context)
        self.tasks[task] = None
        return task

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run `func` inline, as a task of its own: a crash can happen before it or after."""

        async def call_inline() -> T:
            return func(*args)

        return self.create_task(call_inline())

    def is_running(self) -> bool:
        """Whether the loop is running handles."""
        return self._thread_id is not None

    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def get_task_factory(self) -> None:
        """None: tasks are asyncio's own."""
        return

    def get_debug(self) -> bool:
        """Return False: asyncio's debug mode uses real time."""
        return False

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the loop is closed")


def _is_void(timer: asyncio.TimerHandle) -> bool:
    host = host_of(timer)
    return timer.cancelled() or (host is not None and host.crashed)


def check_no_loop_runs() -> None:
    """Refuse to run inside another loop, which has real time."""
    if asyncio._get_running_loop() is not None:
        raise RuntimeError("a simulation cannot run inside a running event loop")
