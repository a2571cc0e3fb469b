"""The store of records in Headgate's own database."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from headgate.base.encoding import Json, JsonObject
from headgate.model.record import Record, RecordRow, StoredRecord


class RecordFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which records of a sync to list; a field that is None matches any record."""

    #: The name that the records are stored under.
    sync: str
    user_id: str | None = None
    connection_id: str | None = None
    key_prefix: str | None = None
    #: Records that were stored or changed at this time or later, and before that time.
    since: datetime | None = None
    until: datetime | None = None


class RecordPosition(msgspec.Struct, frozen=True):
    """A place in the order of records: after this key of a connection, or at its beginning."""

    connection_id: str
    key: str | None


class RecordRows(msgspec.Struct, frozen=True):
    """Records, and where to go on; None: there are no more.

    If a filter matches few, there may be fewer than wanted, or none, although there are more.
    """

    rows: Sequence[RecordRow]
    after: RecordPosition | None


class RecordStore(Protocol):
    """Records in Headgate's own database."""

    async def find_records(
        self, which: RecordFilter, *, after: RecordPosition | None = None, limit: int
    ) -> RecordRows:
        """Records in the order of their connections and keys, after that position."""
        ...

    async def list_under_key(
        self, which: RecordFilter, key: str, *, limit: int
    ) -> Sequence[RecordRow]:
        """The records of different connections under this key, of the filter's sync and user."""
        ...

    async def list_records(
        self, sync: str, connection_id: str, *, after: str | None = None, limit: int
    ) -> Sequence[Record]:
        """Records of a connection in the order of their keys, after the key `after`."""
        ...

    async def find_by_keys(
        self, syncs: Sequence[str], connection_ids: Sequence[str], keys: Sequence[str]
    ) -> Sequence[StoredRecord]:
        """Records of these syncs and connections under these keys."""
        ...

    async def record_hashes(
        self, sync: str, connection_id: str, keys: Sequence[str]
    ) -> dict[str, str]:
        """The content hashes of the stored records under these keys; any number of keys."""
        ...

    async def record_data(
        self, sync: str, connection_id: str, keys: Sequence[str]
    ) -> dict[str, JsonObject]:
        """The data of the stored records under these keys; any number of keys."""
        ...

    async def high_water(self, sync: str, connection_id: str) -> Json:
        """The high-water mark of the sync for the connection; None if none is stored."""
        ...

    async def forget_records(
        self, syncs: Sequence[str], connection_id: str, keys: Sequence[str]
    ) -> int:
        """Delete a connection's records under these keys; returns how many there were."""
        ...
