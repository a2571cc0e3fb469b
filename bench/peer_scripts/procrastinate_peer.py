"""Procrastinate, measured: a queue on Postgres for Python, with LISTEN and NOTIFY.

Settings: as shipped a worker runs one job at a time. Tuned, it runs 20 on the event loop, with a
pool of 20 connections: its documentation names `concurrency` as the way to more jobs a second, and
each job is fetched and finished by a statement of its own. Bulk: `batch_defer_async`, as
documented. After a crash, jobs stay `doing` until an application's own periodic task, which the
documentation describes, looks for stalled ones; by default nothing does.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import procrastinate

from bench.peer_scripts.protocol import SHIPPED, SLOW, TUNED, Client, Jobs, main

AT_ONCE = 20
#: Of a batch, so that a statement stays of a reasonable size.
BATCH = 1_000
HOT, COLD = 10, 0


def make_app(url: str, pool: int) -> tuple[procrastinate.App, Any]:
    """The application and its task."""
    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=1, max_size=pool)
    app = procrastinate.App(connector=connector)
    return app, app.task(name="work")(Jobs().work_async)


class ProcrastinateClient:
    """Defers jobs."""

    def __init__(self, url: str) -> None:
        """Not connected yet."""
        self._app, self._task = make_app(url, pool=4)

    async def open(self) -> Client:
        """Connect, and make the tables."""
        await self._app.open_async()
        if not await self._app.check_connection_async():
            await self._app.schema_manager.apply_schema_async()
        return self

    async def setup(self) -> None:
        """Empty the tables."""
        for table in ("procrastinate_events", "procrastinate_jobs", "procrastinate_workers"):
            await self._app.connector.execute_query_async(f"TRUNCATE {table} CASCADE")

    def _deferrer(self, kind: str) -> Any:
        return self._task.configure(priority=COLD if kind == SLOW else HOT)

    async def submit(self, kind: str, number: int) -> None:
        """Defer one."""
        await self._deferrer(kind).defer_async(kind=kind, number=number)

    async def submit_many(self, kind: str, numbers: Sequence[int]) -> None:
        """Defer many in batches."""
        for first in range(0, len(numbers), BATCH):
            batch = numbers[first : first + BATCH]
            jobs = [{"kind": kind, "number": number} for number in batch]
            await self._deferrer(kind).batch_defer_async(*jobs)

    async def any_left(self) -> bool:
        """Whether a job is waiting or running."""
        found = await self._app.connector.execute_query_one_async(
            "SELECT EXISTS (SELECT 1 FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))"
            " AS found"
        )
        return bool(found["found"])

    async def close(self) -> None:
        """Disconnect."""
        await self._app.close_async()


def work(url: str, settings: str) -> None:
    """Work until SIGTERM."""

    async def run() -> None:
        app, _ = make_app(url, pool=20 if settings == TUNED else 10)
        async with app.open_async():
            await app.run_worker_async(concurrency=1 if settings == SHIPPED else AT_ONCE)

    asyncio.run(run())


if __name__ == "__main__":
    main(lambda url: ProcrastinateClient(url).open(), work)
