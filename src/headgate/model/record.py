"""What a chunk brings: records, events of the source, and the coverage of the day it read."""

from datetime import date, datetime

import msgspec

from headgate.base.encoding import JsonObject
from headgate.model.states import DayStatus


class Record(msgspec.Struct, frozen=True):
    """One thing read from a source, known by a key that stays the same when it is read again."""

    key: str
    data: JsonObject


#: Counted by a chunk that fetches items: those that failed for good in it.
ITEMS_FAILED = "items_failed"


class ChunkEvent(msgspec.Struct, frozen=True):
    """Something that the source tells of a chunk, as a line of the job's story."""

    #: In lower snake case, such as `batch_complete`, and none of the engine's own: see EventKind.
    kind: str
    data: JsonObject = {}


class StoredRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record as the store holds it."""

    sync: str
    connection_id: str
    key: str
    data: JsonObject
    updated_at: datetime


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one day of a connection's history."""

    day: date
    status: DayStatus
    records: int = 0
    error: str | None = None


class CoverageRow(Coverage, frozen=True, kw_only=True):
    """A day's coverage as the store holds it."""

    sync: str
    connection_id: str
    job_id: str
    updated_at: datetime
