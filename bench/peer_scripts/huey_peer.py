"""Huey, measured: a small queue for Python, on Postgres and on SQLite.

Settings: as shipped a consumer has one worker thread; on SQLite it looks every 0.1 s and, while
nothing comes, more and more rarely. Tuned, four threads look every 10 ms: SQLite has one writer,
and Python runs one thread at a time, so more of them only wait for each other. `fsync` is on, as
for all. There is no bulk call. A job is taken off the queue when it begins, and its ending is not
stored: what runs when a consumer dies is lost.
"""

import logging
from collections.abc import Sequence

from huey import Huey, PostgresHuey, SqliteHuey
from huey.consumer import Consumer

from bench.peer_scripts.protocol import SHIPPED, SLOW, TUNED, Client, Jobs, main

HOT, COLD = 10, 0


def make_huey(url: str) -> tuple[Huey, object]:
    """The queue in that database and its task."""
    if url.startswith("sqlite"):
        huey = SqliteHuey("bench", filename=url.removeprefix("sqlite:///"), fsync=True)
    else:
        huey = PostgresHuey("bench", dsn=url)
    return huey, huey.task(name="work")(Jobs().work)


class HueyClient:
    """Enqueues tasks."""

    def __init__(self, url: str) -> None:
        """The database is opened when it is used."""
        self._huey, self._task = make_huey(url)

    async def open(self) -> Client:
        """Nothing to do."""
        return self

    async def setup(self) -> None:
        """Empty the tables."""
        self._huey.flush()

    async def submit(self, kind: str, number: int) -> None:
        """Enqueue one."""
        priority = COLD if kind == SLOW else HOT
        self._huey.enqueue(self._task.s(kind, number, priority=priority))  # type: ignore[attr-defined]

    async def submit_many(self, kind: str, numbers: Sequence[int]) -> None:
        """Enqueue one after another: there is no other way."""
        for number in numbers:
            await self.submit(kind, number)

    async def any_left(self) -> bool:
        """Whether a job is waiting; nobody knows of those that run."""
        return bool(self._huey.pending_count())

    async def close(self) -> None:
        """Disconnect."""
        self._huey.storage.close()


def work(url: str, settings: str) -> None:
    """Work until SIGTERM."""
    logging.basicConfig(level=logging.INFO if settings == SHIPPED else logging.WARNING)
    huey, _ = make_huey(url)
    if settings == TUNED:
        Consumer(huey, workers=4, initial_delay=0.01, max_delay=0.01).run()
    else:
        Consumer(huey, workers=1 if settings == SHIPPED else 20).run()


if __name__ == "__main__":
    main(lambda url: HueyClient(url).open(), work)
