"""The engine under a virtual clock: whole applications on a real SQLite file, without a sleep."""

import asyncio
import functools
import inspect
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from unittest.mock import patch

from headgate import App, Chunk, Context, JobState, LaneSize, Sync, WorkerSettings
from headgate.base.clock import ManualClock
from headgate.loops import liveness
from headgate.model.job import Lane
from headgate.model.states import JOB
from headgate.signals.local import LocalSignal
from headgate.store.sql import schema
from headgate.store.sql.engine.sqlite import InlineSqliteDatabase
from headgate.testing import SimulationLoop, VirtualClock, run
from headgate.types import Job

T = TypeVar("T")

Read = Callable[[Context], Awaitable[Chunk]]

#: Where virtual time begins.
START = datetime(2026, 1, 1, tzinfo=UTC)

#: Where hours pass and nobody dies, most of the work was to sweep every 40 s and to look for dead
#: workers every 2.5 s. So that happens rarely, but in tests about just that.
PATIENT = WorkerSettings(lease_s=3600.0)
LOOK_EVERY_S = 3600.0


class ScriptedSource:
    """A source whose every read is a function of the test's."""

    def __init__(self, read: Read, name: str = "scripted") -> None:
        self.name = name
        self._read = read
        self.calls: list[Context] = []

    async def read(self, ctx: Context) -> Chunk:
        self.calls.append(ctx)
        return await self._read(ctx)


class World:
    """One SQLite file and any number of processes around it, in virtual time."""

    def __init__(self, loop: SimulationLoop, file: Path, worker: WorkerSettings) -> None:
        self.loop = loop
        self.clock = VirtualClock(loop, START)
        self._file = file
        self._worker = worker
        self._signal = LocalSignal()
        self._opened: list[App] = []

    async def app(self, *syncs: Sync, worker: WorkerSettings | None = None, **parts: Any) -> App:
        """A process's application, opened; `parts` are more that it is made of."""
        app = App(
            InlineSqliteDatabase(self._file, self.clock),
            syncs=syncs,
            worker=worker or self._worker,
            signal=self._signal,
            clock=self.clock,
            rng=Random(len(self._opened)),
            **parts,
        )
        await app.open()
        self._opened.append(app)
        return app

    async def at_work(self, *syncs: Sync, **parts: Any) -> App:
        """The same, with a worker that has started."""
        app = await self.app(*syncs, **parts)
        await app.supervisor().start()
        return app

    async def until(self, app: App, job_id: str, *states: JobState, limit_s: float = 1e6) -> Job:
        """Let virtual time pass until the job is in one of these states, or has ended."""
        wanted = states or JOB.terminal
        began = self.clock.monotonic()
        async with asyncio.timeout(limit_s):
            while (job := await app.jobs.get(job_id)).state not in wanted:
                # Ever longer steps: hours of virtual time should not take thousands of looks.
                await self.clock.sleep(max(0.05, (self.clock.monotonic() - began) / 50))
        return job

    async def close(self) -> None:
        for app in self._opened:
            await app.close()


Main = Callable[[World], Coroutine[Any, Any, T]]


def in_world(folder: Path, main: Main[T], *, seed: int | None = None) -> T:
    """Run `main` in a world of its own, with long leases unless it names others."""
    with patch.object(liveness, "LOOK_EVERY_S", LOOK_EVERY_S):
        return _in_world(folder, main, PATIENT, seed)


def where_workers_die(folder: Path, main: Main[T]) -> T:
    """The same with leases and looks for dead workers as they really are."""
    return _in_world(folder, main, WorkerSettings(), None)


def as_test(
    runner: Callable[..., Any], *args: Any, gives: int = 1, **options: Any
) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[..., None]]:
    """Makes tests of coroutine functions, to which `runner` gives the first arguments, or so many.

    `runner` is called with a folder, what to run, and these arguments.
    """

    def decorate(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        def run_test(tmp_path: Path, **fixtures: Any) -> None:
            runner(tmp_path, functools.partial(test, **fixtures), *args, **options)

        wanted = list(inspect.signature(test).parameters.values())[gives:]
        folder = inspect.Parameter("tmp_path", inspect.Parameter.KEYWORD_ONLY)
        named = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in wanted]
        functools.update_wrapper(run_test, test)
        run_test.__signature__ = inspect.Signature([folder, *named])  # type: ignore[attr-defined]
        return run_test

    return decorate


with_world = as_test(in_world)
with_dying_workers = as_test(where_workers_die)


def _in_world(folder: Path, main: Main[T], worker: WorkerSettings, seed: int | None) -> T:
    file = folder / f"world-{seed}.db"
    shutil.copyfile(_template(), file)

    async def opened(loop: SimulationLoop) -> T:
        world = World(loop, file, worker)
        try:
            return await main(world)
        finally:
            await world.close()

    return run(opened, seed=seed)


def lanes(hot: int = 32, cold: int = 4, *, slice_s: float = 5.0, **more: Any) -> WorkerSettings:
    """Worker settings with that many slots."""
    sizes = {
        Lane.HOT: LaneSize(concurrency=hot, slice_s=slice_s),
        Lane.COLD: LaneSize(concurrency=cold, slice_s=slice_s),
    }
    return WorkerSettings(lanes=sizes, **more)


def kinds(events: Sequence[Any]) -> list[str]:
    """The kinds of some events, in order."""
    return [event.kind for event in events]


@functools.cache
def _template() -> Path:
    """A migrated, empty database to copy: migrating anew for every test would be slow."""
    file = Path(tempfile.mkdtemp(prefix="headgate-template-")) / "empty.db"

    async def build(loop: SimulationLoop) -> None:
        database = InlineSqliteDatabase(file, ManualClock(START))
        await database.open()
        await schema.migrate(database)
        await database.close()

    run(build)
    return file
