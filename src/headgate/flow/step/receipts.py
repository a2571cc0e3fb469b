"""Delivering each record once: what was delivered before, and claiming what is to be delivered.

It is for destinations that make a new thing of every record. Two syncs that find the same records,
such as a backfill and a live sync, share their receipts: each claims a record before it sends it.
The claim keeps two jobs from sending a record at the same time. A crash between sending and
committing is the destination's to notice, by the record's own key.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from msgspec.structs import replace

from headgate.base.errors import RecordsClaimed
from headgate.flow.registry import Sync
from headgate.flow.runtime import Runtime
from headgate.model.job import Job
from headgate.model.record import Receipt
from headgate.model.states import ReceiptState
from headgate.ports.connector import Chunk, WriteResult

#: How long a job waits before it looks again whether the other one has sent the records.
CLAIMED_WAIT = timedelta(seconds=15)


async def find_receipts(
    rt: Runtime, sync: Sync, job: Job, keys: Sequence[str]
) -> Mapping[str, ReceiptState]:
    """What the destination has made of these records; RecordsClaimed if one is being sent."""
    if not sync.delivers_once:
        return {}
    return _without_claimed(await rt.receipts.find_states(job, sync.records_name, keys))


async def claim_records(rt: Runtime, sync: Sync, job: Job, chunk: Chunk) -> Chunk:
    """The chunk without the records that were delivered before; the others are the job's now.

    Raises RecordsClaimed if another job is sending one of them.
    """
    if not sync.delivers_once or not chunk.records:
        return chunk
    # A list may shift while it is paged: a record that comes twice is one.
    found = {record.key: record for record in chunk.records}
    taken = _without_claimed(await rt.receipts.claim_records(job, sync.records_name, list(found)))
    left = [record for key, record in found.items() if key not in taken]
    before = chunk.delivered_before + len(found) - len(left)
    return replace(chunk, records=left, delivered_before=before)


def receipts_of(sync: Sync, chunk: Chunk, written: WriteResult | None) -> Sequence[Receipt]:
    """What the destination has made of a chunk's records, to be stored with them."""
    if not sync.delivers_once or written is None:
        return ()
    refused = {each.key for each in written.refused}
    return [
        Receipt(record.key, ReceiptState.REFUSED if record.key in refused else ReceiptState.TAKEN)
        for record in chunk.records
    ]


def _without_claimed(states: Mapping[str, ReceiptState]) -> Mapping[str, ReceiptState]:
    if ReceiptState.CLAIMED in states.values():
        raise RecordsClaimed(CLAIMED_WAIT)
    return states
