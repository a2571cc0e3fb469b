"""The `Leases` port on a SQL database: settling, where what comes together is written together."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection

from headgate.base.coalesce import Coalescer
from headgate.base.errors import StoreUnavailable
from headgate.model.lease import AnyChange, Row
from headgate.store.sql.database import Database
from headgate.store.sql.moment import Moment
from headgate.store.sql.port import SqlPort

Payload = TypeVar("Payload")


class SqlLeases(SqlPort, Generic[Row, AnyChange, Payload]):
    """The rows of one leased type. A subclass names its functions, and settles a batch."""

    def __init__(self, database: Database) -> None:
        """Use `database`, which must be open and migrated."""
        super().__init__(database)
        self._settling = Coalescer[tuple[AnyChange, Payload | None], Row | None](
            self._settle_batch, in_flight_max=database.writes_at_once
        )

    @abstractmethod
    def settle_in(
        self, tx: Connection, now: Moment, batch: Sequence[tuple[AnyChange, Any]]
    ) -> list[Row | None]:
        """Apply the changes that still hold, with what belongs to them."""

    def prepare(self, change: AnyChange, payload: Payload | None) -> Any:
        """The payload as `settle_in` wants it: work that needs no transaction is done here."""
        return payload

    async def settle(self, change: AnyChange, payload: Payload | None = None, /) -> Row | None:
        """Apply a change; those that come together are written together."""
        return await self._settling.submit((change, payload))

    async def settle_many(
        self, batch: Sequence[tuple[AnyChange, Payload | None]], /
    ) -> Sequence[Row | None]:
        """Apply these changes in one transaction."""
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
            # One of them is at fault. Nothing was written: try each alone, so that only it fails.
            return [await self._settle_alone(each) for each in batch]

    async def _settle_alone(
        self, settlement: tuple[AnyChange, Payload | None]
    ) -> Row | Exception | None:
        try:
            [row] = await self._settle_together([settlement])
        except Exception as error:
            return error
        return row
