"""A deterministic asyncio loop: virtual time, one seeded decision, hosts that can crash.

The same program and seed give the same run, in any process, because nothing else decides:

* time stands still while anything can run, then jumps to the next timer;
* one draw from the seed picks which ready handle runs next (seed None: first in, first out);
* tasks and futures are named and hashed by a count of this loop's own, so that a set of them, as
  `asyncio.wait` and `TaskGroup` keep, iterates in the same order everywhere;
* the garbage collector, which runs finalisers, works at counted steps only;
* there are no threads, sockets, signals or subprocesses: asking for one raises `NotSimulated`.

What stays with the caller: do not iterate a set of other objects (`asyncio.as_completed` does so
with coroutines: give it tasks), and inject clocks, ids and randomness (`SimulationLoop.random`).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
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
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, TypeVar, TypeVarTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Ts = TypeVarTuple("Ts")

STEP_LIMIT = 5_000_000  # about half a minute of real time
TIME_LIMIT_S = 100 * 365 * 86_400.0
WIND_DOWN_STEPS = 100_000  # what cancelled tasks may still use once a limit was hit ...
WIND_DOWN_S = 30 * 86_400.0  # ... in steps and in virtual time
EVENTS_KEPT = 50
STEPS_KEPT = 10
COLLECT_EVERY_STEPS = 100_000
TIMERS_MIN = 1_024  # below this, cancelled timers are not worth sweeping out
CLOSE_TRIES = 8

_HOST: ContextVar[Host | None] = ContextVar("headgate_simulation_host", default=None)

# A crashed process never runs again, not even a `finally`; but a suspended coroutine that loses its
# last reference is closed by Python, which runs them, and there is no way to discard a frame unrun.
# So crashed hosts are kept here until `release_frozen`. The list has one reference too many, on
# purpose: otherwise interpreter exit, which clears module globals, would still empty it.
_FROZEN: list[Host] = []
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_FROZEN))


class Deadlock(RuntimeError):
    """Nothing is ready, no timer is set, and the main future is not done."""


class LimitExceeded(RuntimeError):
    """The run used more steps or more virtual time than it was allowed."""


class NotSimulated(NotImplementedError):
    """The program asked for something real, such as a socket, that a simulation does not have."""


class UnhandledTaskError(ExceptionGroup[Exception]):
    """Tasks or callbacks failed and nobody looked at their exceptions."""


class _Future(asyncio.Future[T]):
    def __init__(self, number: int, loop: SimulationLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class _Task(asyncio.Task[T_co]):
    _log_destroy_pending: bool

    def __init__(self, coro: Any, number: int, name: str, loop: SimulationLoop, context: Context):
        self._number = number  # first, because Task.__init__ puts the task into a set
        self.context = context
        self.host = context.get(_HOST, None)
        super().__init__(coro, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self._number


class Host:
    """One incarnation of a simulated process; `SimulationLoop.host` makes it.

    Its code is every handle whose context is marked with it: its tasks, their children and timers.
    """

    def __init__(self, loop: SimulationLoop, name: str, incarnation: int = 1) -> None:
        self.name = name
        self.incarnation = incarnation
        #: How far its wall clock is ahead; set it at any moment to make the clock step.
        self.skew_s = 0.0
        #: How many seconds its wall clock gains per second since the start of the run.
        self.drift = 0.0
        self.crashed = False
        self.paused = False
        self._loop = loop
        self._withheld: list[asyncio.Handle] = []
        self._frozen: list[object] = []

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
        """Stop for ever, as by SIGKILL: no handle of this host runs again, and no `finally`."""
        running = asyncio.current_task(self._loop)
        if isinstance(running, _Task) and running.host is self:
            # Returning would let the dead process run on until its next await.
            raise RuntimeError(f"{self} cannot crash itself this way: await crash_here()")
        self._die()

    async def crash_here(self) -> NoReturn:
        """Crash the host that is running this very line: the await never returns."""
        if current_host() is not self:
            raise RuntimeError(f"{self} is not the running host: call crash()")
        self._die()
        await self._loop.create_future()
        raise AssertionError("a crashed host ran on")

    def pause(self) -> None:
        """Withhold this host's handles, as by SIGSTOP, until `resume`."""
        if not self.crashed and not self.paused:
            self.paused = True
            self._withheld = self._loop._withdraw(self)
            self._loop.note(f"{self} paused")

    def resume(self) -> None:
        """Let it run again; timers that came due meanwhile fire now."""
        if self.paused:
            self.paused = False
            self._loop._ready.extend(self._withheld)
            self._withheld = []
            self._loop.note(f"{self} resumed")

    def restart(self) -> Host:
        """Crash if still up, and return the next incarnation, on the same machine's clock."""
        self.crash()
        successor = Host(self._loop, self.name, self.incarnation + 1)
        successor.skew_s, successor.drift = self.skew_s, self.drift
        self._loop._hosts[self.name] = successor
        return successor

    def _die(self) -> None:
        if not self.crashed:
            self.crashed, self.paused = True, False
            self._loop._freeze(self)
            self._loop.note(f"{self} crashed")


def current_host() -> Host | None:
    """The host whose code is running, or None outside all of them."""
    return _HOST.get()


def release_frozen() -> None:
    """Give back the memory and files that the crashed hosts of closed loops hold.

    This does run their `finally` blocks, so call it once the verdict on a run is known. They run in
    their host's context: a port can refuse them by `current_host().crashed`.
    """
    for host in [host for host in _FROZEN if host._loop.is_closed()]:
        for task in [item for item in host._frozen if isinstance(item, _Task)]:
            for _ in range(CLOSE_TRIES):  # a `finally` that awaits takes another try
                with contextlib.suppress(BaseException):
                    task.context.run(task.get_coro().close)
                    break
        host._frozen.clear()
        _FROZEN.remove(host)


class VirtualClock:
    """The Clock of base/clock.py on a simulation's time, seen through the running host's skew."""

    def __init__(
        self, loop: SimulationLoop, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    ) -> None:
        self._loop = loop
        self._start = start

    def now(self) -> datetime:
        """The running host's wall clock in UTC."""
        elapsed_s = self._loop.time()
        if (host := current_host()) is not None:
            elapsed_s += host.skew_s + host.drift * elapsed_s
        return self._start + timedelta(seconds=elapsed_s)

    def monotonic(self) -> float:
        """Virtual seconds since the start of the run; no skew reaches it."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Wait on the virtual loop, which takes no real time."""
        await asyncio.sleep(seconds)  # noqa: TID251 (this is a Clock, and its loop is virtual)


def _host_of(handle: Any) -> Host | None:
    host: Host | None = handle._context.get(_HOST, None)
    return host


def _task_of(handle: Any) -> _Task[Any] | None:
    owner = getattr(handle._callback, "__self__", None)
    return owner if isinstance(owner, _Task) else None


def _describe(handle: Any) -> str:
    """A name for what a handle runs, the same in every process: never an address."""
    callback = handle._callback
    while isinstance(callback, functools.partial):
        callback = callback.func
    task = _task_of(handle)
    code = callback if task is None else task.get_coro()
    name = getattr(code, "__qualname__", type(code).__qualname__)
    return name if task is None else f"{task.get_name()} {name}"


def _where(task: _Task[Any]) -> str:
    """The chain of awaits in which a task is suspended, outermost first."""
    chain = []
    awaited: Any = task.get_coro()
    while frame := getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None):
        file = frame.f_code.co_filename.rpartition("/")[2]
        chain.append(f"{frame.f_code.co_qualname} ({file}:{frame.f_lineno})")
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
    return " > ".join(chain)


def _absent(what: str) -> Any:
    def refuse(*args: object, **options: object) -> NoReturn:
        raise NotSimulated(f"a simulation has no {what}")

    return refuse


def _check_no_loop_runs() -> None:
    if asyncio._get_running_loop() is not None:
        raise RuntimeError("a simulation cannot run inside a running event loop")


class SimulationLoop(asyncio.AbstractEventLoop):
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
        #: The last notes: the application's events, and what befell the hosts.
        self.trace: deque[str] = deque(maxlen=EVENTS_KEPT)
        self._last_steps: deque[str] = deque(maxlen=STEPS_KEPT)
        self._hash = hashlib.sha256()
        self._schedule = None if seed is None else self.random("schedule")
        self._time = 0.0
        self._numbers = itertools.count(1)  # of tasks, futures and timers
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_max = TIMERS_MIN
        self._hosts: dict[str, Host] = {}
        # Pending tasks, in order of creation. Held strongly: none is lost to the collector.
        self._tasks: dict[_Task[Any], None] = {}
        self._asyncgens = WeakKeyDictionary[AsyncGenerator[Any, Any], Host | None]()
        self._failed = WeakValueDictionary[int, _Task[Any]]()
        self._failures: list[Exception] = []
        self._thread_id: int | None = None
        self._closed = False

    # What a simulation adds: hosts, randomness, the trace.

    def host(self, name: str) -> Host:
        """The latest incarnation of this name; the first one is made on first use."""
        return self._hosts.setdefault(name, Host(self, name))

    def random(self, stream: str) -> random.Random:
        """A new generator for one use, by name: a draw in one reshuffles no other."""
        return random.Random(f"{self.seed}/{stream}")

    def note(self, text: str) -> None:
        """Record an event of the application in the trace."""
        self.trace.append(f"{self._time!r} {current_host() or '-'} {text}")
        self._hash.update(f"note {self.trace[-1]}\n".encode())

    def trace_hash(self) -> str:
        """The SHA-256 of everything that ran or was noted: equal hashes mean the same run."""
        return self._hash.hexdigest()

    def report(self) -> str:
        """What one needs to understand and to repeat this run."""
        lines = [
            f"simulation: seed={self.seed} steps={self.steps} time_s={self._time!r}",
            f"trace: {self.trace_hash()}",
            *(f"unhandled: {error!r}" for error in self._failures),
            *(f"event: {line}" for line in self.trace),
            *(f"step: {line}" for line in self._last_steps),
        ]
        return "\n  ".join(lines)

    # Running.

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        """Run until `future` is done; raise what it raised, or else what nobody handled."""
        assert not isinstance(future, Generator)  # asyncio's interface predates `async def`
        main = asyncio.ensure_future(future, loop=self)
        self._drive(main)
        result = main.result()
        gc.collect()  # finds the failed futures that died in a reference cycle
        self._raise_unhandled()
        return result

    def _drive(self, main: asyncio.Future[Any]) -> None:
        _check_no_loop_runs()
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

    def _step(self) -> None:
        if self.steps >= self.step_limit:
            raise LimitExceeded(f"{self.steps} steps and not done{self._pending()}")
        while not self._ready:
            self._advance()
        # The one decision: everything else in a run follows from it.
        index = 0 if self._schedule is None else self._schedule.randrange(len(self._ready))
        handle = self._ready[index]
        del self._ready[index]
        if handle.cancelled():
            return
        self.steps += 1
        line = f"{self.steps} {self._time!r} {_host_of(handle) or '-'} {_describe(handle)}"
        self._last_steps.append(line)
        self._hash.update(f"step {line}\n".encode())
        task = _task_of(handle)
        try:
            handle._run()
        finally:  # SystemExit and KeyboardInterrupt come through
            if task is not None and task.done():
                self._tasks.pop(task, None)
                if task._log_traceback:
                    self._failed[hash(task)] = task
        if self.steps % COLLECT_EVERY_STEPS == 0:
            gc.collect()

    def _advance(self) -> None:
        """Jump to the next timer, and make ready all that are due with it."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if not self._timers:
            raise Deadlock(f"nothing can run any more at {self._time!r} s{self._pending()}")
        when = self._timers[0][0]
        if when > self.time_limit_s:
            raise LimitExceeded(f"the next timer is only at {when!r} s{self._pending()}")
        self._time = when
        while self._timers and self._timers[0][0] <= when:
            self._enqueue(heapq.heappop(self._timers)[2])

    def _pending(self) -> str:
        tasks = [f"{task.host or '-'} {task.get_name()}: {_where(task)}" for task in self._tasks]
        crashed = [f"{host} is crashed" for host in self._hosts.values() if host.crashed]
        paused = [f"{host} is paused" for host in self._hosts.values() if host.paused]
        return "; pending tasks:" + "".join(f"\n  {line}" for line in tasks + crashed + paused)

    def _collect_unhandled(self) -> None:
        for task in list(self._failed.values()):
            # What a crashed host still held, it might have looked at, had it lived.
            if task._log_traceback and not (task.host and task.host.crashed):
                message = "Task exception was never retrieved"
                error = task.exception()
                self.call_exception_handler({"message": message, "exception": error, "task": task})

    def _raise_unhandled(self) -> None:
        self._collect_unhandled()
        if self._failures:
            failures, self._failures = self._failures, []
            raise UnhandledTaskError("nobody handled what these tasks raised", failures)

    def _wind_down(self) -> None:
        self.step_limit = max(self.step_limit, self.steps + WIND_DOWN_STEPS)
        self.time_limit_s = max(self.time_limit_s, self._time + WIND_DOWN_S)
        for host in self._hosts.values():
            host.resume()
        self._drive(self.create_task(self._cancel_all(), name="wind-down"))

    async def _cancel_all(self) -> None:
        """Cancel the tasks of living hosts and of no host, then close the async generators."""
        own = asyncio.current_task(self)
        while pending := [task for task in self._tasks if task is not own]:
            for task in pending:
                task.cancel()
            await asyncio.wait(pending)
        await self.shutdown_asyncgens()

    # Hosts.

    def _enqueue(self, handle: asyncio.Handle) -> None:
        host = _host_of(handle)
        if host is None or not (host.crashed or host.paused):
            self._ready.append(handle)
        elif host.paused:
            host._withheld.append(handle)
        else:
            host._frozen.append(handle)

    def _withdraw(self, host: Host) -> list[asyncio.Handle]:
        """Take a host's handles out of the ready queue."""
        mine = [handle for handle in self._ready if _host_of(handle) is host]
        self._ready = deque(handle for handle in self._ready if _host_of(handle) is not host)
        return mine

    def _freeze(self, host: Host) -> None:
        """Take everything of a host out of the loop, and keep it from ever being finalised."""
        timers = [timer for timer in self._timers if _host_of(timer[2]) is host]
        self._timers = [timer for timer in self._timers if _host_of(timer[2]) is not host]
        heapq.heapify(self._timers)
        tasks = [task for task in self._tasks if task.host is host]
        asyncgens = [agen for agen, owner in self._asyncgens.items() if owner is host]
        for agen in asyncgens:
            del self._asyncgens[agen]
        self._keep(host, tasks, [*self._withdraw(host), *host._withheld, *timers, *asyncgens])

    def _keep(self, host: Host, tasks: list[_Task[Any]], others: list[object]) -> None:
        for task in tasks:
            del self._tasks[task]
            task._log_destroy_pending = False
        host._frozen = [*tasks, *others]
        _FROZEN.append(host)

    # Scheduling: asyncio's interface.

    def time(self) -> float:
        """Virtual seconds since the start of the run."""
        return self._time

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Make a callback ready."""
        self._check_open()
        handle = asyncio.Handle(callback, args, self, context)
        self._enqueue(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Make a callback ready, from the loop's own thread only."""
        if self._thread_id not in {None, threading.get_ident()}:
            raise NotSimulated("a simulation has no threads: the seed does not decide their order")
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Make a callback ready after `delay` virtual seconds."""
        return self.call_at(self._time + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Make a callback ready at the virtual time `when`."""
        self._check_open()
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        if when <= self._time:
            self._enqueue(timer)
        elif when > self._time:
            heapq.heappush(self._timers, (when, next(self._numbers), timer))
            self._sweep_timers()
        else:
            raise ValueError("a deadline must be a number")
        return timer

    def _sweep_timers(self) -> None:
        if len(self._timers) > self._timers_max:
            self._timers = [timer for timer in self._timers if not timer[2].cancelled()]
            heapq.heapify(self._timers)
            self._timers_max = max(TIMERS_MIN, 2 * len(self._timers))

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing to do: a cancelled timer is swept out, or skipped when it comes up."""

    def create_future(self) -> asyncio.Future[Any]:
        """A future with a reproducible hash."""
        return _Future(next(self._numbers), self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        """A task with a reproducible name and hash, which the loop holds until it is done."""
        self._check_open()
        number = next(self._numbers)
        context = copy_context() if context is None else context
        task: _Task[T] = _Task(coro, number, name or f"task-{number}", self, context)
        self._tasks[task] = None
        return task

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run `func` inline, as a handle of its own: a crash can strike before it or after."""
        future = self.create_future()

        def call_inline() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                future.set_exception(error)

        self.call_soon(call_inline)
        return future

    # Life cycle and errors: asyncio's interface.

    def is_running(self) -> bool:
        """Whether the loop is running handles."""
        return self._thread_id is not None

    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """Refuse further work, and freeze the tasks that refused to end, as if they had crashed."""
        if self.is_running():
            raise RuntimeError("cannot close a running loop")
        self._closed = True
        if self._tasks:
            self._keep(Host(self, "unfinished"), list(self._tasks), [])

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the loop is closed")

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep an error that nobody handled: it fails the run."""
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
        for agen in list(self._asyncgens):
            try:
                await agen.aclose()
            except Exception as error:
                message = "an async generator failed to close"
                self.call_exception_handler({"message": message, "exception": error})

    def get_debug(self) -> bool:
        """No: asyncio's debug mode looks at real time."""
        return False

    # What a simulation does not have.

    add_signal_handler = remove_signal_handler = _absent("signals")
    set_default_executor = shutdown_default_executor = _absent("threads")
    subprocess_exec = subprocess_shell = _absent("subprocesses")
    connect_read_pipe = connect_write_pipe = _absent("pipes")
    run_forever = stop = _absent("end without a main future: use run_until_complete")
    get_task_factory = set_task_factory = set_debug = _absent("asyncio settings")
    get_exception_handler = set_exception_handler = default_exception_handler = _absent(
        "exception handler: an error that nobody handles fails the run"
    )
    create_connection = create_server = create_datagram_endpoint = _absent("sockets")
    create_unix_connection = create_unix_server = connect_accepted_socket = _absent("sockets")
    getaddrinfo = getnameinfo = start_tls = sendfile = sock_sendfile = _absent("sockets")
    add_reader = remove_reader = add_writer = remove_writer = _absent("sockets")
    sock_recv = sock_recv_into = sock_recvfrom = sock_recvfrom_into = _absent("sockets")
    sock_sendall = sock_sendto = sock_connect = sock_accept = _absent("sockets")


def run(
    main: Callable[[SimulationLoop], Coroutine[Any, Any, T]] | Coroutine[Any, Any, T],
    *,
    seed: int | None = None,
    step_limit: int = STEP_LIMIT,
    time_limit_s: float = TIME_LIMIT_S,
) -> T:
    """Run `main` on a loop of its own, cancel what it left behind, and close the loop.

    An exception that leaves carries `SimulationLoop.report` as a note, so that it can be repeated.
    """
    _check_no_loop_runs()
    loop = SimulationLoop(seed, step_limit=step_limit, time_limit_s=time_limit_s)
    try:
        coro = main(loop) if callable(main) else main
        try:
            result = loop.run_until_complete(loop.create_task(coro, name="main"))
        finally:
            loop._wind_down()
        loop._raise_unhandled()
        return result
    except BaseException as error:
        loop._collect_unhandled()
        error.add_note(loop.report())
        raise
    finally:
        loop.close()
