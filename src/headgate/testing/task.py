"""Tasks and futures that are the same in every process: numbered, and hashed by their number.

The module owns their identity and description. The loop decides when a task runs.
"""

import asyncio
import functools
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Future(asyncio.Future[T]):
    """A future with a reproducible hash."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class Task(asyncio.Task[T_co]):
    """A task with a reproducible hash and name, which knows its context."""

    def __init__(
        self, coro: Any, number: int, name: str, loop: asyncio.AbstractEventLoop, context: Context
    ) -> None:
        self._number = number  # first, because asyncio puts the task into a set
        self._context = context  # as a handle has it
        super().__init__(coro, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self._number


def task_of(handle: Any) -> Task[Any] | None:
    """Return the task whose step a handle runs, if it does."""
    owner = getattr(handle._callback, "__self__", None)
    return owner if isinstance(owner, Task) else None


def describe(handle: Any) -> str:
    """Return a name for what a handle runs, the same in every process: never a memory address."""
    callback = handle._callback
    while isinstance(callback, functools.partial):
        callback = callback.func
    task = task_of(handle)
    code = callback if task is None else task.get_coro()
    name: str = getattr(code, "__qualname__", type(code).__qualname__)
    return name if task is None else f"{task.get_name()} {name}"


def where(task: Task[Any]) -> str:
    """Return a task's name, and the chain of awaits in which it is suspended, outermost first."""
    chain = []
    awaited: Any = task.get_coro()
    while frame := getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None):
        file = frame.f_code.co_filename.rpartition("/")[2]
        chain.append(f"{frame.f_code.co_qualname} ({file}:{frame.f_lineno})")
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
    return f"{task.get_name()}: {' > '.join(chain)}"
