"""The `Leases` port on a SQL database, for all leased types.

Changes that are settled at the same time share one transaction.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Generic, TypeVar

from sqlalchemy import Connection

from headgate.base.coalesce import Coalescer
from headgate.base.errors import StoreUnavailable
from headgate.model.lease import AnyChange, Claim, LeasedType, Row
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.port import SqlPort
from headgate.store.sql.leases.table import LeaseTable

Payload = TypeVar("Payload")


class SqlLeases(SqlPort, Generic[Row, AnyChange, Payload]):
    """The rows of one leased type. A subclass names the table, and adds how rows are claimed."""

    #: The table of the rows.
    table: ClassVar[LeaseTable[Any, Any, Any, Any]]

    def __init__(self, database: Database) -> None:
        """Use `database`, which must be open and migrated."""
        super().__init__(database)
        self._settling = Coalescer[tuple[AnyChange, Payload | None], Row | None](
            self._settle_batch, in_flight_max=database.writes_at_once
        )

    @property
    def kind(self) -> LeasedType[Row, Any, Any]:
        return self.table.kind

    # ---- the guarded write ---------------------------------------------------------------------

    def settle_in(
        self, tx: Connection, now: Moment, batch: Sequence[tuple[AnyChange, Any]]
    ) -> list[Row | None]:
        """Apply the changes that are still valid; a subclass also stores their payloads."""
        return self.table.settle(tx, now, batch)

    def prepare(self, change: AnyChange, payload: Payload | None) -> Any:
        """The payload as `settle_in` takes it; work that needs no transaction is done here."""
        return payload

    async def settle(self, change: AnyChange, payload: Payload | None = None, /) -> Row | None:
        """Apply a change, in one transaction with others that are settled at the same time."""
        return await self._settling.submit((change, payload))

    async def settle_many(
        self, batch: Sequence[tuple[AnyChange, Payload | None]], /
    ) -> Sequence[Row | None]:
        return await self._settle_together(batch) if batch else []

    async def _settle_together(
        self, batch: Sequence[tuple[AnyChange, Payload | None]]
    ) -> Sequence[Row | None]:
        prepared = [(change, self.prepare(change, payload)) for change, payload in batch]
        return await self.database.write(
            lambda tx: self.settle_in(tx, self.database.moment(), prepared)
        )

    async def _settle_batch(
        self, batch: list[tuple[AnyChange, Payload | None]]
    ) -> list[Row | Exception | None]:
        try:
            return list(await self._settle_together(batch))
        except StoreUnavailable:
            raise
        except Exception:
            # One change is at fault and nothing was written: try each alone, so that one fails.
            return [await self._settle_alone(each) for each in batch]

    async def _settle_alone(
        self, settlement: tuple[AnyChange, Payload | None]
    ) -> Row | Exception | None:
        try:
            [row] = await self._settle_together([settlement])
        except Exception as error:
            return error
        return row

    # ---- extending, sweeping and reading -------------------------------------------------------

    async def extend(self, claims: Sequence[Claim], /, *, lease: timedelta) -> Mapping[str, Any]:
        table, database = self.table, self.database
        return await database.autocommit(
            lambda tx: table.extend(tx, database.moment(), claims, lease=lease)
        )

    async def list_expired(self, *, limit: int) -> Sequence[Row]:
        table, database = self.table, self.database
        return await database.read(
            lambda tx: table.list_expired(tx, database.moment(), limit=limit)
        )

    async def expire(self, worker: str, /) -> int:
        table, database = self.table, self.database
        return await database.autocommit(lambda tx: table.expire(tx, database.moment(), worker))

    async def next_sweep_s(self) -> float | None:
        table, database = self.table, self.database
        # Asked in every sweep, also by an idle process.
        return await database.autocommit(
            lambda tx: table.next_sweep_s(tx, database.moment()), read_only=True
        )

    async def get(self, row_id: str, /, *, user_id: str | None = None) -> Row:
        row: Row = await self.database.read(lambda tx: self.table.get(tx, row_id, user_id=user_id))
        return row
