"""Worker processes: each has an item, which it refreshes while it is alive."""

from collections.abc import Sequence
from datetime import timedelta

from headgate.model.worker import Abilities, Worker
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.port import DynamoPort, on_table
from headgate.store.dynamodb.engine.rows import RowCodec, plain
from headgate.store.dynamodb.engine.table import DynamoTable, KeyRange
from headgate.store.dynamodb.engine.writes import Delete, Update

_CODEC = RowCodec(Worker)
#: The most worker processes that are looked at.
_WORKERS_MAX = 10_000


async def refresh_worker(
    table: DynamoTable, worker_id: str, abilities: Abilities, *, term: timedelta
) -> None:
    """Store that the worker is alive and what it can run; after `term` it counts as gone."""
    now = table.now()
    update = Update(
        at=keys.worker(worker_id),
        change="SET #id = :id, #abilities = :abilities, #expires_at = :expires, "
        "#started_at = if_not_exists(#started_at, :now)",
        values={
            "id": worker_id,
            "abilities": _CODEC.to_value("abilities", abilities),
            "expires": plain(now + term),
            "now": plain(now),
        },
    )
    await table.write(update)


async def remove_worker(table: DynamoTable, worker_id: str) -> None:
    """Delete the item of a worker that has stopped."""
    await table.write(Delete(at=keys.worker(worker_id)))


async def live_workers(table: DynamoTable) -> Sequence[Worker]:
    """The workers that count as alive, in the order of their start."""
    now = table.now()
    workers = [_CODEC.from_item(item) for item in await _worker_items(table)]
    alive = [each for each in workers if each.expires_at > now]
    return sorted(alive, key=lambda each: (each.started_at, each.id))


async def _worker_items(table: DynamoTable) -> list[Attributes]:
    return await table.query_all(KeyRange(pk=keys.WORKERS), limit=_WORKERS_MAX)


async def prune_workers(table: DynamoTable) -> int:
    """Delete the items of workers that are gone; returns how many."""
    now, gone = plain(table.now()), 0
    for item in await _worker_items(table):
        if item["expires_at"] <= now:
            gone += await _prune_worker(table, item["id"], now)
    return gone


async def _prune_worker(table: DynamoTable, worker_id: str, now: str) -> bool:
    """Delete a worker's item, unless it has come back meanwhile."""
    delete = Delete(at=keys.worker(worker_id), condition="#expires_at <= :now", values={"now": now})
    try:
        await table.write(delete)
    except ConditionFailed:
        return False
    return True


class DynamoWorkers(DynamoPort):
    """Worker processes in DynamoDB."""

    refresh_worker = on_table(refresh_worker)
    remove_worker = on_table(remove_worker)
    live_workers = on_table(live_workers)
    prune_workers = on_table(prune_workers)
