"""The ledgers of budgets: each is one item, written on condition that nobody wrote it meanwhile.

Requests of this process that come together share one write. If another process has written the
ledger first, the requests are decided again on what it wrote, a bounded number of times. A ledger
that only this process writes is read once, so that a request costs one write. One that others write
too is read before each write: what is not known any more would only be refused, and a write costs
five times as much as a read.

If an answer is lost, the requests may be counted although nobody was told that they may be sent,
and never the other way round.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from headgate.base.coalesce import Coalescer
from headgate.base.errors import StoreUnavailable
from headgate.model.budget import PER_S_MAX, Ledger, to_ms
from headgate.store.dynamodb.engine import keys as item_keys
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.definition import TTL
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.dynamodb.engine.writes import IS_NEW, Put
from headgate.store.ledgers import LedgerOperation

#: The most ledgers in one transaction. One that is larger meets more writers of the same ledgers.
LEDGERS_MAX = 20
#: How often requests are decided because another process wrote a ledger first,
ATTEMPTS_MAX = 24
#: and the rest before that, at random up to these seconds, which double each time up to the last:
#: four seconds together, and eight at most. `python -m bench.contention` shows what others do.
_REST_S, _REST_S_MAX = 0.04, 0.4
#: The most ledgers that are remembered since our last write.
REMEMBERED_MAX = 1000
#: A ledger that nobody has written for this time is deleted: it counts in no window any more.
KEPT = timedelta(seconds=2 * PER_S_MAX)

_decoder = msgspec.msgpack.Decoder(Ledger)


class _Written(NamedTuple):
    """A ledger as it was last written: encoded, because the policy changes what it is given."""

    #: Every write raises it; None: the ledger was never written.
    version: int | None
    encoded: bytes | None

    def ledger(self) -> Ledger:
        return Ledger() if self.encoded is None else _decoder.decode(self.encoded)

    def next(self, ledger: Ledger, now: int) -> "_Written":
        # The first version is the time, so that a ledger that is deleted and made again has others.
        version = now if self.version is None else self.version + 1
        return _Written(version, msgspec.msgpack.encode(ledger))


class DynamoLedgers:
    """The ledgers of budgets in DynamoDB."""

    def __init__(self, table: DynamoTable) -> None:
        """Use `table`, which must be open; its time is that of windows."""
        self._table = table
        #: One for each provider, so that none waits for the ledgers of another.
        self._batches: dict[str, Coalescer[LedgerOperation, Any]] = {}
        self._remembered: OrderedDict[str, _Written] = OrderedDict()
        #: Those of them that another process has written meanwhile.
        self._shared: set[str] = set()

    async def run(self, operation: LedgerOperation) -> Any:
        """Run the operation in one write with others of the same ledgers that come meanwhile."""
        source = operation.budget.source
        if source not in self._batches:
            self._batches[source] = Coalescer(self._run_batch)
        return await self._batches[source].submit(operation)

    async def read(self, keys: Iterable[str]) -> tuple[Mapping[str, Ledger], int]:
        """The ledgers, and the time in milliseconds."""
        found = await self._read(list(keys))
        return {key: written.ledger() for key, written in found.items()}, self._now

    @property
    def _now(self) -> int:
        return to_ms(self._table.now())

    # ---- batches -------------------------------------------------------------------------------

    async def _run_batch(self, batch: list[LedgerOperation]) -> list[Any]:
        outcomes: list[Any] = [None] * len(batch)

        async def run_group(places: Sequence[int]) -> None:
            for some in _split(batch, places):
                for place, outcome in zip(
                    some, await self._run_together([batch[place] for place in some]), strict=True
                ):
                    outcomes[place] = outcome

        await asyncio.gather(*(run_group(places) for places in _by_first_ledger(batch)))
        return outcomes

    async def _run_together(self, operations: Sequence[LedgerOperation]) -> Sequence[Any]:
        """Run the operations and write their ledgers in one request; returns the outcomes.

        An error is the outcome of each of them, because a batch may have other operations.
        """
        try:
            return await self._spend(operations)
        except Exception as error:
            return [error] * len(operations)

    async def _spend(self, operations: Sequence[LedgerOperation]) -> list[Any]:
        keys = sorted({key for each in operations for key in each.keys().values()})
        if not keys:
            return [each.run({}, self._now) for each in operations]
        before = self._recall(keys) or await self._read(keys)
        for attempt in range(ATTEMPTS_MAX):
            if attempt > 0:
                await self._rest(attempt - 1)
                # After the rest, not before it: what is read is soon behind.
                before = await self._read(keys)
            now = self._now
            ledgers = {key: written.ledger() for key, written in before.items()}
            outcomes = [each.run(ledgers, now) for each in operations]
            after = {key: before[key].next(ledger, now) for key, ledger in ledgers.items()}
            try:
                await self._write(before, after)
            except ConditionFailed:
                self._shared.update(keys)
            else:
                self._remember(after)
                return outcomes
        raise StoreUnavailable(f"too many write the ledger {keys[0]!r} at the same time; try again")

    async def _rest(self, attempt: int) -> None:
        longest = min(_REST_S_MAX, _REST_S * 2**attempt)
        client = self._table.client
        await client.sleep(client.rng.uniform(0, longest))

    # ---- items ---------------------------------------------------------------------------------

    async def _write(self, before: Mapping[str, _Written], after: Mapping[str, _Written]) -> None:
        """Write all ledgers; ConditionFailed if another has written one of them since."""
        ends = int((self._table.now() + KEPT).timestamp())
        writes = [_put(key, before[key], written, ends) for key, written in after.items()]
        if len(writes) == 1:
            await self._table.write(writes[0])
        else:
            await self._table.transact(writes)

    async def _read(self, keys: Sequence[str]) -> dict[str, _Written]:
        items = await self._table.get_many([item_keys.ledger(key) for key in keys])
        found = {key: _written(items.get(item_keys.ledger(key))) for key in keys}
        # As we wrote it: nobody else has written it for a while.
        self._shared -= {key for key in keys if found[key] == self._remembered.get(key)}
        return found

    def _remember(self, after: Mapping[str, _Written]) -> None:
        self._remembered.update(after)
        while len(self._remembered) > REMEMBERED_MAX:
            self._shared.discard(self._remembered.popitem(last=False)[0])

    def _recall(self, keys: Sequence[str]) -> dict[str, _Written] | None:
        """The ledgers as we last wrote them, which are forgotten; None if they must be read."""
        if not self._shared.isdisjoint(keys):
            return None
        found = {key: self._remembered.pop(key, None) for key in keys}
        known = {key: written for key, written in found.items() if written is not None}
        return known if len(known) == len(keys) else None


def _put(key: str, before: _Written, after: _Written, ends: int) -> Put:
    pk, sk = item_keys.ledger(key)
    item: Attributes = {
        "pk": pk,
        "sk": sk,
        "ledger": after.encoded,
        "version": after.version,
        TTL: ends,
    }
    if before.version is None:
        return Put(item=item, condition=IS_NEW)
    return Put(item=item, condition="#version = :seen", values={"seen": before.version})


def _written(item: Attributes | None) -> _Written:
    return _Written(None, None) if item is None else _Written(item["version"], item["ledger"])


def _by_first_ledger(batch: Sequence[LedgerOperation]) -> list[list[int]]:
    """The places of operations that share a ledger; groups can be written at the same time.

    The first ledger of a budget is the application's, if it has one; else the connection's.
    """
    groups: dict[str, list[int]] = {}
    for place, each in enumerate(batch):
        groups.setdefault(next(iter(each.keys().values()), ""), []).append(place)
    return list(groups.values())


def _split(batch: Sequence[LedgerOperation], places: Sequence[int]) -> Iterable[list[int]]:
    """The places in parts, none of which has more than the most ledgers."""
    some: list[int] = []
    keys: set[str] = set()
    for place in places:
        own = set(batch[place].keys().values())
        if some and len(keys | own) > LEDGERS_MAX:
            yield some
            some, keys = [], set()
        some.append(place)
        keys |= own
    yield some
