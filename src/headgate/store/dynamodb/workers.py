"""Worker processes: each has an item, which it refreshes while it is alive."""

from collections.abc import Sequence
from datetime import timedelta

from headgate.model.worker import Abilities, Worker
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.rows import RowCodec, plain
from headgate.store.dynamodb.engine.table import DynamoTable, KeyRange
from headgate.store.dynamodb.engine.writes import Delete, Update

_CODEC = RowCodec(Worker)
#: The most worker processes that are looked at.
_WORKERS_MAX = 10_000


class DynamoWorkers:
    """The `WorkerStore` port on DynamoDB."""

    table: DynamoTable

    async def refresh_worker(
        self, worker_id: str, abilities: Abilities, *, term: timedelta
    ) -> None:
        """Store that the worker is alive and what it can run; after `term` it counts as gone."""
        now = self.table.now()
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
        await self.table.write(update)

    async def remove_worker(self, worker_id: str) -> None:
        """Delete the item of a worker that has stopped."""
        await self.table.write(Delete(at=keys.worker(worker_id)))

    async def live_workers(self) -> Sequence[Worker]:
        """The workers that count as alive, in the order of their start."""
        now = self.table.now()
        workers = [_CODEC.from_item(item) for item in await self._worker_items()]
        alive = [each for each in workers if each.expires_at > now]
        return sorted(alive, key=lambda each: (each.started_at, each.id))

    async def _worker_items(self) -> list[Attributes]:
        return await self.table.query_all(KeyRange(pk=keys.WORKERS), limit=_WORKERS_MAX)

    async def prune_workers(self) -> int:
        """Delete the items of workers that are gone; returns how many."""
        now, gone = plain(self.table.now()), 0
        for item in await self._worker_items():
            if item["expires_at"] <= now:
                gone += await self._prune_worker(item["id"], now)
        return gone

    async def _prune_worker(self, worker_id: str, now: str) -> bool:
        """Delete a worker's item, unless it has come back meanwhile."""
        delete = Delete(
            at=keys.worker(worker_id), condition="#expires_at <= :now", values={"now": now}
        )
        try:
            await self.table.write(delete)
        except ConditionFailed:
            return False
        return True
