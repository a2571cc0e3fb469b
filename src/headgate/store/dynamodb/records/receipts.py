"""Receipts: what a destination has made of each record, and which job is about to send it.

A job claims records before it sends them, so that two jobs never send the same one. A claim names
the chunk of its job and is valid while the job works on that chunk; nobody has to release it. A
record that was refused stays so while it is claimed again, until there is another answer.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from headgate.base.errors import Malformed, StoreUnavailable
from headgate.model.job import Job
from headgate.model.lease import NO_CLAIM
from headgate.model.states import JOB, ReceiptState, words
from headgate.ports.jobs.store import ChunkWork
from headgate.store.dynamodb.engine import keys as catalogue
from headgate.store.dynamodb.engine.attributes import Attributes, ItemTooLarge, Key, check_key
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.port import DynamoPort, on_table
from headgate.store.dynamodb.engine.rows import plain
from headgate.store.dynamodb.engine.table import TRANSACTION_ITEMS_MAX, DynamoTable
from headgate.store.dynamodb.engine.writes import IS_NEW, Check, Put, Write, unchanged

#: How often claims are tried again because others have claimed some of the same meanwhile.
_TRIES_MAX = 20
#: A chunk of a job: its id, the token of its claim, and its steps.
_ChunkId = tuple[str, int, int]


async def find_states(
    table: DynamoTable, job: Job, stored_as: str, keys: Sequence[str]
) -> Mapping[str, ReceiptState]:
    """The states of the records that the destination has, has refused, or is being sent."""
    found = await table.get_many(list(_places(job, stored_as, keys)))
    return await _receipt_states(table, job, found)


async def claim_records(
    table: DynamoTable, job: Job, stored_as: str, keys: Sequence[str]
) -> Mapping[str, ReceiptState]:
    """Claim these records for the job's present chunk, until it is settled.

    If any is claimed by another job, this one has to wait, and what it got by then is void as
    soon as it does.
    """
    places = _places(job, stored_as, sorted(set(keys)))
    for place, key in places.items():
        # Before any of them is sent: what cannot be noted as sent would be sent again.
        _check_place(place, key)
    for _ in range(_TRIES_MAX):
        if not places or _chunk_id(job) not in await _chunks_at_work(table, [job.id]):
            # The job was claimed again meanwhile; whoever has it now sends the records.
            return dict.fromkeys(keys, ReceiptState.CLAIMED)
        found = await table.get_many(list(places))
        states = await _receipt_states(table, job, found)
        others = {key: state for key, state in states.items() if state is not ReceiptState.REFUSED}
        if ReceiptState.CLAIMED in others.values():
            return others
        free = {place: key for place, key in places.items() if key not in others}
        if await _claim_free(table, job, stored_as, free, found):
            return others
    raise StoreUnavailable("others keep claiming the same records")


async def _claim_free(
    table: DynamoTable,
    job: Job,
    stored_as: str,
    free: Mapping[Key, str],
    found: Mapping[Key, Attributes],
) -> bool:
    """Claim the records whose receipts are as they were found; False if some are not."""
    writes: list[Write] = []
    for place, key in free.items():
        state: str = ReceiptState.CLAIMED
        condition, seen = IS_NEW, dict[str, object]()
        if place in found:
            state = found[place]["state"]
            condition, seen = unchanged(found[place], ("state", "job_id", "token", "step"))
        item = receipt_item(job, stored_as, key, state, table.now(), job.token)
        writes.append(Put(item=item, condition=condition, values=seen))
    at_work = Check(
        at=catalogue.job(job.id),
        condition="#token = :token AND #steps = :steps AND #state IN (:first, :second)",
        values={
            "token": job.token,
            "steps": job.steps,
            **dict(zip(("first", "second"), words(JOB.claimed), strict=True)),
        },
    )
    size = TRANSACTION_ITEMS_MAX - 1
    try:
        for begin in range(0, len(writes), size):
            await table.transact([at_work, *writes[begin : begin + size]])
    except ConditionFailed:
        return False
    return True


async def _receipt_states(
    table: DynamoTable, job: Job, found: Mapping[Key, Attributes]
) -> dict[str, ReceiptState]:
    """The states of receipts. A claim counts if it is another job's, and that is at work."""
    open_items = [item for item in found.values() if item["state"] != ReceiptState.TAKEN]
    at_work = await _chunks_at_work(table, [item["job_id"] for item in open_items])
    at_work -= {_chunk_id(job)}
    states = {
        catalogue.from_own_key(item["sk"]): ReceiptState(item["state"])
        for item in found.values()
        if item["state"] != ReceiptState.CLAIMED
    }
    for item in open_items:
        if (item["job_id"], item["token"], item["step"]) in at_work:
            states[catalogue.from_own_key(item["sk"])] = ReceiptState.CLAIMED
    return states


async def _chunks_at_work(table: DynamoTable, job_ids: Sequence[str]) -> set[_ChunkId]:
    """The chunks that workers have claimed now, of these jobs."""
    wanted = [catalogue.job(job_id) for job_id in sorted(set(job_ids))]
    found = await table.get_many(wanted, ["id", "token", "steps", "state"])
    return {
        (item["id"], item["token"], item["steps"])
        for item in found.values()
        if item["state"] in words(JOB.claimed)
    }


def _places(job: Job, stored_as: str, wanted: Sequence[str]) -> dict[Key, str]:
    pk = catalogue.receipts(stored_as, job.connection_id, job.destination_connection_id)
    return {(pk, catalogue.own_key(key)): key for key in wanted}


def _check_place(place: Key, key: str) -> None:
    try:
        check_key(place)
    except ItemTooLarge as error:
        raise Malformed(f"the record {key[:80]!r}: {error}") from None


def _chunk_id(job: Job) -> _ChunkId:
    return job.id, job.token, job.steps


def plan_receipts(job: Job, work: ChunkWork, now: datetime) -> list[Write]:
    """The writes of what the destination has made of the chunk's records."""
    last = {receipt.key: receipt.state for receipt in work.receipts}
    stored_as = work.stored_as or job.sync
    return [Put(item=receipt_item(job, stored_as, key, state, now)) for key, state in last.items()]


def receipt_item(
    job: Job, stored_as: str, key: str, state: str, now: datetime, token: int = NO_CLAIM
) -> dict[str, object]:
    """The receipt of a record for the present chunk of a job, claimed for it under `token`."""
    return {
        "pk": catalogue.receipts(stored_as, job.connection_id, job.destination_connection_id),
        "sk": catalogue.own_key(key),
        "state": plain(state),
        "job_id": job.id,
        "token": token,
        "step": job.steps,
        "updated_at": plain(now),
    }


class DynamoReceipts(DynamoPort):
    """Receipts in DynamoDB."""

    find_states = on_table(find_states)
    claim_records = on_table(claim_records)
