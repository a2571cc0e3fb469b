"""The records in Headgate's own database: reading and deleting them, and the coverage of days."""

from collections.abc import AsyncIterator, Sequence
from datetime import date

from msgspec.structs import replace

from headgate.base.errors import InvalidInput, NotFound
from headgate.flow.records.view import (
    NUL,
    RecordPage,
    RecordView,
    cursor_of,
    note_of,
    read_cursor,
    record_view,
)
from headgate.flow.runtime import Runtime
from headgate.model.record import CoverageRow, Record, RecordRow, StoredRecord
from headgate.ports.records.store import RecordFilter

PAGE_MAX = 1000
#: How many records are in memory while all are walked over.
WALK_PAGE = 500
#: The most connections that are named when several have the same key.
_NAMED_MAX = 5


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
        return await self._rt.records.list_records(
            stored_as, connection_id, after=after, limit=limit
        )

    async def page(
        self, which: RecordFilter, *, after: str | None = None, limit: int = 50
    ) -> RecordPage:
        """A page of the records that match, after the cursor `after`.

        Its filter names a sync, declared or not. NotFound if it is not, and nothing is stored.
        """
        if not 1 <= limit <= PAGE_MAX:
            raise InvalidInput("limit", f"must be between 1 and {PAGE_MAX}")
        stored = self._checked(which)
        begin = None if after is None else read_cursor(after)
        found = await self._rt.records.find_records(stored, after=begin, limit=limit)
        sync = self._rt.registry.find(which.sync)
        if sync is None and begin is None and not found.rows and found.after is None:
            known = ", ".join(self._rt.registry.names) or "none"
            raise NotFound(f"no records of a sync {which.sync!r} are here; the syncs are: {known}")
        return RecordPage(
            data=[record_view(row, which.sync) for row in found.rows],
            next_cursor=None if found.after is None else cursor_of(found.after),
            note=None if sync is None else note_of(sync),
        )

    async def walk(self, which: RecordFilter) -> AsyncIterator[Sequence[RecordView]]:
        """Every record that matches, page by page, each as it is when its page is read."""
        after: str | None = None
        while True:
            page = await self.page(which, after=after, limit=WALK_PAGE)
            yield page.data
            after = page.next_cursor
            if after is None:
                return

    async def get(self, which: RecordFilter, key: str) -> RecordView:
        """The record under this key, of the filter's sync, user and connection.

        NotFound if there is none. InvalidInput if several connections have one.
        """
        stored = self._checked(which)
        found = () if NUL in key else await self._under_key(stored, key)
        if not found:
            raise NotFound(f"there is no record {key!r} of {which.sync}")
        if len(found) > 1:
            named = ", ".join(row.connection_id for row in found[:_NAMED_MAX])
            more = ", …" if len(found) > _NAMED_MAX else ""
            raise InvalidInput(
                "connection_id", f"several connections have this record; name one: {named}{more}"
            )
        return record_view(found[0], which.sync)

    async def _under_key(self, which: RecordFilter, key: str) -> Sequence[RecordRow]:
        return await self._rt.records.list_under_key(which, key, limit=_NAMED_MAX + 1)

    def _checked(self, which: RecordFilter) -> RecordFilter:
        """The filter with the name that the records are stored under; InvalidInput if it is wrong.

        Postgres takes no NUL in a text.
        """
        for field in ("sync", "user_id", "connection_id", "key_prefix"):
            if NUL in (getattr(which, field) or ""):
                raise InvalidInput(field, "must not contain the character NUL")
        for field in ("since", "until"):
            at = getattr(which, field)
            if at is not None and at.tzinfo is None:
                raise InvalidInput(field, "has no time zone; add one, such as +00:00")
        return replace(which, sync=self._rt.registry.records_name(which.sync))

    async def find(
        self, syncs: Sequence[str], connection_ids: Sequence[str], keys: Sequence[str]
    ) -> Sequence[StoredRecord]:
        """The records of these syncs, connections and keys, with the time each was stored."""
        return await self._rt.records.find_by_keys(self._names(syncs), connection_ids, keys)

    async def forget(self, syncs: Sequence[str], connection_id: str, keys: Sequence[str]) -> int:
        """Delete a connection's records under these keys; returns how many there were."""
        return await self._rt.records.forget_records(self._names(syncs), connection_id, keys)

    async def coverage(
        self, sync: str, connection_id: str, *, start: date, end: date
    ) -> Sequence[CoverageRow]:
        """The coverage of each day; a day without a row has not been read."""
        return await self._rt.coverage.list_days(sync, connection_id, start, end)

    def _names(self, syncs: Sequence[str]) -> Sequence[str]:
        return sorted({self._rt.registry.records_name(sync) for sync in syncs})
