"""The records in Headgate's own database: reading and deleting them, and the coverage of days."""

from collections.abc import Sequence
from datetime import date

from headgate.flow.runtime import Runtime
from headgate.model.record import CoverageRow, Record, StoredRecord


class Records:
    """The records of an application, by sync and connection; syncs may share their records."""

    def __init__(self, rt: Runtime) -> None:
        """Use the runtime of the application."""
        self._rt = rt

    async def list(
        self, sync: str, connection_id: str, *, after: str | None = None, limit: int = 200
    ) -> Sequence[Record]:
        """A connection's records in the order of their keys, after the key `after`."""
        stored_as = self._rt.registry.records_name(sync)
        return await self._rt.store.records(stored_as, connection_id, after=after, limit=limit)

    async def find(
        self, syncs: Sequence[str], connection_ids: Sequence[str], keys: Sequence[str]
    ) -> Sequence[StoredRecord]:
        """The records of these syncs, connections and keys, with the time each was stored."""
        return await self._rt.store.records_of(self._names(syncs), connection_ids, keys)

    async def forget(self, syncs: Sequence[str], connection_id: str, keys: Sequence[str]) -> int:
        """Delete a connection's records under these keys; returns how many there were."""
        return await self._rt.store.forget_records(self._names(syncs), connection_id, keys)

    async def coverage(
        self, sync: str, connection_id: str, *, start: date, end: date
    ) -> Sequence[CoverageRow]:
        """The coverage of each day; a day without a row has not been read."""
        return await self._rt.store.coverage(sync, connection_id, start, end)

    def _names(self, syncs: Sequence[str]) -> Sequence[str]:
        return sorted({self._rt.registry.records_name(sync) for sync in syncs})
