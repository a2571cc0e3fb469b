"""The records of a chunk: which are new, changed or gone, and the writes that store them."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

import msgspec

from headgate.base.encoding import content_hash, to_json
from headgate.base.errors import Malformed
from headgate.model.job import Job
from headgate.model.record import Record, RecordCounts
from headgate.ports.jobs.store import ChunkWork
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.attributes import (
    Attributes,
    ItemTooLarge,
    Key,
    check_item,
    check_key,
)
from headgate.store.dynamodb.engine.definition import BY_USER
from headgate.store.dynamodb.engine.rows import plain
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.dynamodb.engine.writes import IS_NEW, Delete, Put, Update, Write

#: What is read of a stored record to tell what becomes of it. `chunk` is the chunk that wrote it
#: before its job's row, if it was too large for one transaction, and `was` how it counted then.
_READ = ("hash", "chunk", "was", "user_id")


class RecordPlan(msgspec.Struct, frozen=True):
    """What is written for the records of a chunk, and how they count."""

    writes: list[Write]
    #: Written with the job's row, in any case.
    owner: list[Write]
    counts: RecordCounts


async def plan_records(table: DynamoTable, job: Job, work: ChunkWork, now: datetime) -> RecordPlan:
    """Read what is stored of the chunk's records, and decide what to write.

    A record with unchanged content is not written again.
    """
    stored_as = work.stored_as or job.sync
    # If a key comes twice in a chunk, the later record counts.
    incoming = {record.key: record for record in work.records}
    places = {key: _place(stored_as, job, key) for key in incoming}
    gone = [key for key in dict.fromkeys(work.removed) if key not in incoming]
    removed = [keys.record(stored_as, job.connection_id, key) for key in gone]
    owner = keys.owner(stored_as, job.connection_id)
    wanted = [*places.values(), *removed]
    found = await table.get_many([*wanted, owner], _READ) if wanted else {}
    counts: Counter[str] = Counter()
    writes: list[Write] = []
    for key, record in incoming.items():
        write = _store(record, places[key], found.get(places[key], {}), job, now, counts)
        if write is not None:
            writes.append(write)
    writes += [Delete(at=place) for place in removed if place in found]
    owners: list[Write] = []
    if counts["inserted"] and owner not in found:
        of_user = keys.owners_of(stored_as, job.user_id)
        item = {
            "pk": owner[0],
            "sk": owner[1],
            "user_id": job.user_id,
            "created_at": plain(now),
            **keys.index_attributes(BY_USER, of_user, job.connection_id),
        }
        owners.append(Put(item=item, condition=IS_NEW))
    return RecordPlan(writes, owners, RecordCounts(**counts))


def _place(stored_as: str, job: Job, key: str) -> Key:
    place = keys.record(stored_as, job.connection_id, key)
    try:
        check_key(place)
    except ItemTooLarge as error:
        raise Malformed(f"the record {key[:80]!r}: {error}") from None
    return place


def _store(
    record: Record,
    place: Key,
    stored: Mapping[str, str],
    job: Job,
    now: datetime,
    counts: Counter[str],
) -> Write | None:
    digest, before = content_hash(record.data), stored.get("hash")
    by_this_chunk = stored.get("chunk") == job.chunk_key
    if by_this_chunk:
        # An earlier try of this chunk came as far as this record, and counts nowhere yet.
        became = stored["was"]
    else:
        became = "inserted" if before is None else "updated"
    if before == digest:
        counts[became if by_this_chunk else "unchanged"] += 1
        return None
    counts[became] += 1
    values: Attributes = {
        "data": to_json(record.data),
        "hash": digest,
        "now": plain(now),
        "chunk": job.chunk_key,
        "was": became,
    }
    condition = IS_NEW
    if before is not None:
        condition, values["before"] = "#hash = :before", before
    write = Update(
        at=place,
        change="SET #data = :data, #hash = :hash, #updated_at = :now, "
        "#created_at = if_not_exists(#created_at, :now), #chunk = :chunk, #was = :was",
        condition=condition,
        values=values,
    )
    stored_as = {name: values[name] for name in ("data", "hash", "chunk", "was")}
    times = dict.fromkeys(("created_at", "updated_at"), values["now"])
    try:
        check_item({"pk": place[0], "sk": place[1], **stored_as, **times})
        write.request()
    except ItemTooLarge as error:
        raise Malformed(f"the record {record.key[:80]!r}: {error}") from None
    return write
