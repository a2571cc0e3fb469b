"""Every leased type as the conformance suite of leases sees it: a few functions for each."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, ClassVar, NamedTuple

from sqlalchemy import Connection, Table, select

from headgate.base.clock import ManualClock
from headgate.model import change as job_changes
from headgate.model import delivery as delivery_changes
from headgate.model import item as item_changes
from headgate.model.item import Document
from headgate.model.job import Lane
from headgate.model.lease import Change
from headgate.model.record import Coverage, Record
from headgate.model.states import DayStatus, JobState
from headgate.policy import deliveries as delivery_policy
from headgate.policy import items as item_policy
from headgate.policy.deliveries import DeliveryRetryPolicy
from headgate.policy.items import ItemRetryPolicy
from headgate.ports.items import NewItem
from headgate.ports.jobs.store import ChunkWork
from headgate.ports.leases import Leases
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.dynamodb.jobs.store import DynamoJobs
from headgate.store.sql.engine.database import Database
from headgate.store.sql.items.store import SqlItems
from headgate.store.sql.leases.port import SqlLeases
from headgate.store.sql.outbox.store import SqlOutbox
from headgate.store.sql.outbox.writer import delivery_id
from tests import dynamo
from tests.conformance import outboxes
from tests.conformance.changes import CASES
from tests.store_bundles import stores_in
from tests.stores import START, SYNCS, contents, new_job, submit_all, tally

MINUTE = timedelta(minutes=1)
WORK = ChunkWork(
    records=[Record("record_1", {"text": "late"})],
    coverage=Coverage(day=date(2025, 12, 31), status=DayStatus.HELD, records=1),
)
DOCUMENT = Document.of_json({"time": [0, 1, 2], "heartrate": [90, 91, 92]})

_numbers = itertools.count(1)


class Settlement(NamedTuple):
    """A change of a row, and what belongs to it."""

    change: Change[Any]
    payload: Any = None


Make = Callable[[Any], Settlement]


class LeasedRows(ABC):
    """The rows of one leased type in one database."""

    #: What a worker does to a row that it has; "finish" and "release" are among them.
    changes: ClassVar[Mapping[str, Make]]
    #: What becomes of a row whose lease has run out; "rescue" is among them.
    rescues: ClassVar[Mapping[str, Make]]

    def __init__(self, port: Leases[Any, Any, Any]) -> None:
        self.port = port

    @property
    def sql(self) -> SqlLeases[Any, Any, Any]:
        """The port, which is one on a SQL database."""
        assert isinstance(self.port, SqlLeases)
        return self.port

    async def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of the database: compare two to see that nothing was written between."""
        if isinstance(self.port, DynamoJobs):
            return await dynamo.contents(self.port.table)
        table = self.sql.table.table
        return await self.sql.database.read(lambda tx: rows_of(tx, table))

    @abstractmethod
    async def add(self, count: int) -> list[str]:
        """So many rows that are due at once; their ids."""

    @abstractmethod
    async def claim(self, limit: int, *, worker: str, lease: timedelta) -> Sequence[Any]:
        """Take due rows."""


def rows_of(tx: Connection, table: Table) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table of the engine, and of this one."""
    own = [tuple(row) for row in tx.execute(select(table).order_by(table.c.id))]
    return {**contents(tx), table.name: own}


class JobRows(LeasedRows):
    """Jobs."""

    changes: ClassVar[Mapping[str, Make]] = {
        "finish": lambda job: Settlement(job_changes.succeed(job, tally(), {}), WORK),
        **{
            name: lambda job, case=case: Settlement(case.make(job), WORK)  # type: ignore[misc]
            for name, case in CASES.items()
            if case.source is JobState.RUNNING and name not in ("rescue", "give_up")
        },
    }
    rescues: ClassVar[Mapping[str, Make]] = {
        "rescue": lambda job: Settlement(job_changes.rescue(job, after=timedelta(0))),
        "give up": lambda job: Settlement(job_changes.give_up(job)),
    }

    def __init__(self, database: Database | DynamoTable) -> None:
        self._stores = stores_in(database, SYNCS)
        super().__init__(self._stores.jobs)

    async def add(self, count: int) -> list[str]:
        return [job.id for job in await submit_all(self._stores, [new_job() for _ in range(count)])]

    async def claim(self, limit: int, *, worker: str, lease: timedelta) -> Sequence[Any]:
        return (
            await self._stores.jobs.claim(Lane.COLD, worker=worker, limit=limit, lease=lease)
        ).jobs


class ItemRows(LeasedRows):
    """Items."""

    changes: ClassVar[Mapping[str, Make]] = {
        "finish": lambda item: Settlement(item_changes.succeed(item), DOCUMENT),
        "fail": lambda item: Settlement(item_changes.fail(item, error="x", after=MINUTE)),
        "defer": lambda item: Settlement(item_changes.defer(item, after=timedelta(0), error="x")),
        "give up": lambda item: Settlement(item_changes.give_up(item, error="x")),
        "find nothing": lambda item: Settlement(item_changes.find_nothing(item, reason="x")),
        "release": lambda item: Settlement(item_changes.release(item)),
    }
    rescues: ClassVar[Mapping[str, Make]] = {
        "rescue": lambda item: Settlement(item_policy.rescue(item, ItemRetryPolicy())),
        "abandon": lambda item: Settlement(item_changes.abandon(item, error="lost")),
    }

    def __init__(self, database: Database) -> None:
        self._port = SqlItems(database)
        super().__init__(self._port)

    async def add(self, count: int) -> list[str]:
        new = [
            NewItem(
                id=f"item_{number:06d}",
                collection="notes",
                user_id="user_1",
                connection_id="connection_1",
                external_id=f"external_{number}",
                start_time=START + number * MINUTE,
            )
            for number in itertools.islice(_numbers, count)
        ]
        await self._port.register(new)
        return [each.id for each in new]

    async def claim(self, limit: int, *, worker: str, lease: timedelta) -> Sequence[Any]:
        return await self._port.claim(
            "notes", "connection_1", limit=limit, lease=lease, worker=worker
        )


class DeliveryRows(LeasedRows):
    """Deliveries, each of a message of its own."""

    changes: ClassVar[Mapping[str, Make]] = {
        "finish": lambda row: Settlement(delivery_changes.succeed(row)),
        "fail": lambda row: Settlement(delivery_changes.fail(row, error="x", after=MINUTE)),
        "reject": lambda row: Settlement(delivery_changes.reject(row, error="x")),
        "release": lambda row: Settlement(delivery_changes.release(row)),
    }
    rescues: ClassVar[Mapping[str, Make]] = {
        "rescue": lambda row: Settlement(
            delivery_policy.rescue(row, DeliveryRetryPolicy(), draw=0.5)
        ),
        "rescue later": lambda row: Settlement(delivery_changes.rescue(row, after=MINUTE)),
    }

    def __init__(self, database: Database) -> None:
        self._port = SqlOutbox(database, ManualClock(START))
        super().__init__(self._port)

    async def add(self, count: int) -> list[str]:
        new = [outboxes.new_message(targets=["local"]) for _ in range(count)]
        await outboxes.add(self._port, new, at=START)
        return [delivery_id(each.id, "local") for each in new]

    async def claim(self, limit: int, *, worker: str, lease: timedelta) -> Sequence[Any]:
        claimed = await self._port.claim(
            "local", [outboxes.TOPIC], limit=limit, lease=lease, worker=worker
        )
        return [each.delivery for each in claimed]


#: Makes the rows of each leased type in a database.
TYPES: dict[str, Callable[[Any], LeasedRows]] = {
    "job": JobRows,
    "item": ItemRows,
    "delivery": DeliveryRows,
}
