"""The events of jobs: those of one change share an item, and are numbered within their job.

The job's item counts the events, and has the time of its oldest event in the index by age: so old
events are found without an index entry for each.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from headgate.base.encoding import JsonObject, from_json, to_json
from headgate.model.job import JobEvent
from headgate.model.states import JobState
from headgate.ports.jobs.events import LastEvent
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.at_once import gather
from headgate.store.dynamodb.engine.attributes import Attributes, key_of, size_of
from headgate.store.dynamodb.engine.definition import BY_AGE, index_keys
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.port import DynamoPort, on_table
from headgate.store.dynamodb.engine.table import DynamoTable, KeyRange
from headgate.store.dynamodb.engine.writes import Put, Update, set_and_remove

#: The attribute of a job's item that counts its events.
EVENTS = "events"
#: Events of one change share an item up to this size; a chunk may bring a hundred of 8 KB.
ITEM_BYTES_AIM = 200 * 1024

_AGE_PK, _AGE_SK = index_keys(BY_AGE)


def append(
    job_id: str, count: int, at: datetime, new: Sequence[tuple[str, JsonObject]]
) -> list[Put]:
    """The writes that append events to a job that has had `count` of them."""
    puts: list[Put] = []
    texts: list[str] = []
    size = 0
    for number, (kind, data) in enumerate(new, count + 1):
        texts.append(to_json([kind, data]))
        size += size_of(texts[-1])
        if number == count + len(new) or size > ITEM_BYTES_AIM:
            pk, sk = keys.event(job_id, number)
            item = {"pk": pk, "sk": sk, "at": keys.time_text(at), "told": texts}
            puts.append(Put(item=item))
            texts, size = [], 0
    return puts


def age_of(job_id: str, at: datetime) -> Attributes:
    """The place in the index by age of a job whose oldest event is of that time."""
    partition = keys.join("events", keys.shard_of(job_id))
    return keys.index_attributes(BY_AGE, partition, keys.join(keys.time_text(at), job_id))


def is_aged(item: Attributes) -> bool:
    """Whether a job's item is in the index by age: whether it has events that are kept."""
    return item.get(_AGE_PK) is not None


def _events_of(item: Attributes, job_id: str) -> list[JobEvent]:
    told = [from_json(text) for text in item["told"]]
    last, at = int(item["sk"].rpartition("#")[2]), datetime.fromisoformat(item["at"])
    events = []
    for number, entry in enumerate(told, last - len(told) + 1):
        kind, data = entry  # type: ignore[misc]
        events.append(JobEvent(id=number, job_id=job_id, at=at, kind=kind, data=data))  # type: ignore[has-type]
    return events


def _older(items: Sequence[Attributes], before: str, limit: int) -> list[Attributes]:
    """The first of a job's event items that are old: of at most `limit` events, or one item."""
    old: list[Attributes] = []
    gone = 0
    for item in items:
        gone += len(item["told"])
        if item["at"] >= before or (old and gone > limit):
            break
        old.append(item)
    return old


async def list_events(
    table: DynamoTable, job_id: str, *, after: int, limit: int
) -> Sequence[JobEvent]:
    """A job's events in order, after the id `after`."""
    which = KeyRange(
        pk=keys.job(job_id)[0], first=keys.event_sk(after + 1), last=keys.event_sk(10**12 - 1)
    )
    items = await table.query_all(which, limit=limit)
    found = [event for item in items for event in _events_of(item, job_id)]
    return [event for event in found if event.id > after][:limit]


async def last_events(table: DynamoTable, job_ids: Sequence[str]) -> Mapping[str, LastEvent]:
    """How far each of these jobs is; its state and its last event are read at one moment."""
    found = await table.get_many([keys.job(each) for each in job_ids])
    return {
        item["id"]: LastEvent(item[EVENTS] if is_aged(item) else 0, JobState(item["state"]))
        for item in found.values()
    }


async def prune_events(table: DynamoTable, *, older_than: timedelta, limit: int) -> int:
    """Delete old events, at most `limit` of the oldest; returns how many."""
    before = keys.time_text(table.now() - older_than)
    shards = [KeyRange(pk=each, last=before, index=BY_AGE) for each in keys.shards("events")]
    left = limit

    async def prune(entry: Attributes) -> int:
        """Delete those of a job's oldest events that were told before then."""
        nonlocal left
        if left <= 0:
            return 0
        job = await table.get((entry["pk"], entry["sk"]))
        which = KeyRange(pk=entry["pk"], first=keys.event_sk(1), last=keys.event_sk(10**12 - 1))
        # Those of one change go together, so a few more may be looked at than are deleted.
        items = await table.query_all(which, limit=left + 1)
        if left <= 0:
            return 0
        old = _older(items, before, left)
        gone = sum(len(item["told"]) for item in old)
        # Nothing is awaited since the look at `left`: jobs at the same time share the limit.
        left -= gone
        await table.delete_many([key_of(item) for item in old])
        if job is not None:
            await _move_age(table, job, items[len(old) :])
        return gone

    found = await table.query_shards(BY_AGE, shards, limit=limit)
    return sum(await gather(prune(entry) for entry in found))


async def _move_age(table: DynamoTable, job: Attributes, left: Sequence[Attributes]) -> None:
    """Write of which time a job's oldest event is now."""
    age: Attributes = {_AGE_PK: None, _AGE_SK: None}
    if left:
        age = age_of(job["id"], datetime.fromisoformat(left[0]["at"]))
    update = Update(
        at=(job["pk"], job["sk"]),
        change=set_and_remove(age),
        # Not if more was told meanwhile; the next round finds the job again.
        condition=f"#{EVENTS} = :seen",
        values={**age, "seen": job[EVENTS]},
    )
    try:
        await table.write(update)
    except ConditionFailed:
        pass


class DynamoEvents(DynamoPort):
    """The events of jobs in DynamoDB."""

    list_events = on_table(list_events)
    last_events = on_table(last_events)
    prune_events = on_table(prune_events)
