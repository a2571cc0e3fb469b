"""A system's own table for the records of a sync, written when a chunk is committed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from headgate.model.record import Record, RecordCounts


class TableBatch(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The records of one chunk, and whose they are."""

    user_id: str
    connection_id: str
    sync: str
    job_id: str
    #: No key comes twice.
    records: Sequence[Record]
    #: The time of the transaction, by the store's clock.
    at: datetime


class RecordTable(Protocol):
    """A system's own table, in which a sync stores its records instead of Headgate's own."""

    def store(self, tx: Any, batch: TableBatch) -> RecordCounts:
        """Store the records, each once by its key, and count what became of them.

        `tx` is SQLAlchemy's connection. Its transaction also commits the job's cursor, and only
        while the worker has its claim: either both are written or neither. The function may run
        again after a failure, so it must do nothing but talk to the database.
        """
        ...
