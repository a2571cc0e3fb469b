"""The contents of a chunk: records and their counts, events, messages, the coverage of a day."""

from collections.abc import Sequence
from datetime import date, datetime

import msgspec

from headgate.base.encoding import Json, JsonObject
from headgate.model.states import DayStatus, ReceiptState


class Record(msgspec.Struct, frozen=True):
    """One record read from a source; its key stays the same when it is read again."""

    key: str
    data: JsonObject


class RecordCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many of a chunk's records were inserted, updated or unchanged."""

    inserted: int = 0
    updated: int = 0
    unchanged: int = 0

    def __bool__(self) -> bool:
        """Whether there were any records."""
        return bool(self.inserted or self.updated or self.unchanged)

    def by_name(self) -> dict[str, int]:
        """The counts by the names of the job's summary."""
        return msgspec.structs.asdict(self)


#: Counted by a chunk that fetches items: those that failed for good in it.
ITEMS_FAILED = "items_failed"


class ChunkEvent(msgspec.Struct, frozen=True):
    """An event that the source adds to the job's events with a chunk."""

    #: In lower snake case, such as `batch_complete`; not one of the engine's own (EventKind), and
    #: not `end`, which ends a stream of events.
    kind: str
    data: JsonObject = {}


class ChunkMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that the source enqueues with a chunk; see `Outbox.enqueue`."""

    topic: str
    payload: Json
    #: By default the job, the chunk's number and the message's place in it.
    key: str | None = None
    #: The names of its targets; None: those of the topic.
    targets: Sequence[str] | None = None


class StoredRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record as it is stored."""

    sync: str
    connection_id: str
    key: str
    data: JsonObject
    updated_at: datetime


class RecordRow(StoredRecord, frozen=True, kw_only=True):
    """A stored record, with whose it is."""

    user_id: str
    created_at: datetime


class Receipt(msgspec.Struct, frozen=True):
    """What a destination has made of the record under this key."""

    key: str
    state: ReceiptState


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """The status of one day of a connection's history."""

    day: date
    status: DayStatus
    records: int = 0
    error: str | None = None


class CoverageRow(Coverage, frozen=True, kw_only=True):
    """The coverage of a day as it is stored."""

    sync: str
    connection_id: str
    job_id: str
    updated_at: datetime
