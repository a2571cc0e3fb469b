"""DBOS, measured: durable workflows in Python, here queued on Postgres.

Settings: as shipped a queue has no limit of workflows at once and is looked at once a second.
Tuned, it is looked at every 10 ms, with a pool of 20 connections and logs for errors only. There is
no bulk call: `DBOSClient.enqueue_in_transaction` puts many into one transaction. A process that
starts with the executor's id runs the workflows again that were running there.
"""

import os
import signal
import threading
from collections.abc import Sequence
from typing import Any

import sqlalchemy
from dbos import DBOS, DBOSClient

from bench.peer_scripts.protocol import SLOW, TUNED, Client, Jobs, main

HOT, COLD = "hot", "cold"
#: Workflows in one transaction.
BATCH = 1_000


def on_psycopg(url: str) -> str:
    """The address for SQLAlchemy with psycopg."""
    return url.replace("postgresql://", "postgresql+psycopg://")


class DbosClient:
    """Enqueues workflows, without running any."""

    def __init__(self, url: str) -> None:
        """Not connected yet."""
        self._url = url

    async def open(self) -> Client:
        """Make the tables, by launching once, and connect."""
        launch(self._url, {})
        DBOS.destroy()
        self._client = DBOSClient(system_database_url=self._url)
        self._engine = sqlalchemy.create_engine(on_psycopg(self._url))
        return self

    async def setup(self) -> None:
        """Empty the tables."""
        with self._engine.begin() as connection:
            connection.execute(sqlalchemy.text("TRUNCATE dbos.workflow_status CASCADE"))

    def _options(self, kind: str) -> Any:
        return {"workflow_name": "work", "queue_name": COLD if kind == SLOW else HOT}

    async def submit(self, kind: str, number: int) -> None:
        """Enqueue one."""
        self._client.enqueue(self._options(kind), kind, number)

    async def submit_many(self, kind: str, numbers: Sequence[int]) -> None:
        """Enqueue many in a transaction."""
        options = self._options(kind)
        for first in range(0, len(numbers), BATCH):
            with self._engine.begin() as connection:
                for number in numbers[first : first + BATCH]:
                    self._client.enqueue_in_transaction(connection, options, kind, number)

    async def any_left(self) -> bool:
        """Whether a workflow is waiting or running."""
        query = (
            "SELECT EXISTS (SELECT 1 FROM dbos.workflow_status"
            " WHERE status IN ('ENQUEUED', 'PENDING'))"
        )
        with self._engine.connect() as connection:
            return bool(connection.execute(sqlalchemy.text(query)).scalar_one())

    async def close(self) -> None:
        """Disconnect."""
        self._client.destroy()
        self._engine.dispose()


def launch(url: str, settings: dict[str, Any]) -> None:
    """Launch DBOS with the workflow."""
    jobs = Jobs()
    DBOS(config={"name": "bench", "system_database_url": url, **settings})
    DBOS.workflow(name="work")(_workflow(jobs))
    DBOS.launch()


def _workflow(jobs: Jobs) -> Any:
    def work(kind: str, number: int) -> None:
        jobs.work(kind, number)

    return work


def work(url: str, settings: str) -> None:
    """Work until SIGTERM."""
    tuned = settings == TUNED
    launch(url, {"sys_db_pool_size": 20, "log_level": "ERROR"} if tuned else {})
    looked = {"polling_interval_sec": 0.01} if tuned else {}
    for queue in (HOT, COLD):
        DBOS.register_queue(queue, on_conflict="always_update", **looked)
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    stopped.wait()
    os._exit(0)


if __name__ == "__main__":
    main(lambda url: DbosClient(url).open(), work)
