"""The coverage of a connection's history: which days are held, empty or failed."""

from collections.abc import Sequence
from datetime import date

from headgate.model.record import CoverageRow
from headgate.ports.jobs.store import NewJob
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.at_once import gather
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.rows import RowCodec
from headgate.store.dynamodb.engine.table import DynamoTable, KeyRange

_CODEC = RowCodec(CoverageRow)
#: More days than any range has.
_DAYS_MAX = 100_000


class DynamoCoverage:
    """The `CoverageStore` port on DynamoDB."""

    table: DynamoTable

    async def coverage(
        self, sync: str, connection_id: str, start: date, end: date
    ) -> Sequence[CoverageRow]:
        """The coverage of the days from `start` to `end`, both included, in order."""
        items = await self._days(sync, connection_id, start, end)
        return [_CODEC.from_item(item) for item in items]

    async def _days(
        self, sync: str, connection_id: str, start: date, end: date
    ) -> list[Attributes]:
        if end < start:
            return []
        which = KeyRange(
            pk=keys.coverage(sync, connection_id), first=start.isoformat(), last=end.isoformat()
        )
        return await self.table.query_all(which, limit=_DAYS_MAX)

    async def covered_days(self, new: Sequence[NewJob]) -> Sequence[Sequence[CoverageRow]]:
        """For each new job, the coverage of its days whose records went to the same account."""
        return await gather(self._covered_days(each) for each in new)

    async def _covered_days(self, new: NewJob) -> Sequence[CoverageRow]:
        if new.start_date is None or new.end_date is None:
            return []
        items = await self._days(new.sync, new.connection_id, new.start_date, new.end_date)
        return [
            _CODEC.from_item(item)
            for item in items
            if item.get("destination_connection_id") == new.destination_connection_id
        ]

    async def gaps(
        self, job_id: str, sync: str, connection_id: str, *, limit: int
    ) -> Sequence[CoverageRow]:
        """Days of the job that failed or are incomplete, the newest first."""
        which = KeyRange(
            pk=keys.coverage(sync, connection_id),
            where="#job_id = :job AND attribute_exists(#error)",
            values={"job": job_id},
            newest_first=True,
        )
        return [_CODEC.from_item(item) for item in await self.table.query_all(which, limit=limit)]
