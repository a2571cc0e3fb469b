"""The `Leases` port on DynamoDB, for all leased types.

A change is applied to the row as it was just read, and written on the condition that every column
that the rules looked at is still the same; if it is not, the row is read again. Each change is a
transaction of its own: of many that are settled together, some may be written and others not.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

import msgspec

from headgate.base.errors import HeadgateError, NotFound, StoreError, StoreUnavailable
from headgate.model.lease import AT_ONCE, AnyChange, Claim, LeasedType, Row
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.at_once import gather
from headgate.store.dynamodb.engine.attributes import Attributes, Key, check_size, item_size
from headgate.store.dynamodb.engine.definition import BY_STATE, index_keys
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.merge import query_shards
from headgate.store.dynamodb.engine.rows import RowCodec, only_set, plain
from headgate.store.dynamodb.engine.table import DynamoTable, KeyRange
from headgate.store.dynamodb.engine.writes import EXISTS, Update, Write, set_and_remove

Payload = TypeVar("Payload")

#: How often a change is applied anew because others have changed the row meanwhile.
SETTLE_TRIES_MAX = 10
#: What the work of a chunk leaves of a row's item: a claim and the words of a failure add to it,
#: and a row that cannot be claimed would keep others from being claimed too.
ROW_BYTES_SPARE = 8 * 1024
#: The most claims, of all workers, among which those of one that died are looked for.
EXPIRE_MAX = 5_000


class Settlement(msgspec.Struct, Generic[Row, AnyChange, Payload]):
    """A change to write: the row after it, the item as it was read, and the payload."""

    change: AnyChange
    row: Row
    item: Attributes
    payload: Payload | None
    now: datetime
    #: What is written in the same transaction.
    writes: list[Write] = []
    #: Attributes of the item besides the columns of the row.
    more: Attributes = {}


class DynamoLeases(ABC, Generic[Row, AnyChange, Payload]):
    """The rows of one leased type. A subclass names their keys, and adds how they are claimed."""

    def __init__(self, table: DynamoTable, kind: LeasedType[Row, AnyChange, Any]) -> None:
        """Store the rows of `kind` in `table`, which must be open."""
        self.table = table
        self.codec = RowCodec(kind.row)
        self._kind = kind
        self._claimed = [state.value for state in kind.machine.claimed]
        #: The columns that the rules look at, besides the time.
        self._seen = [name for name in kind.locked.__struct_fields__ if name != "now"]

    @property
    def kind(self) -> LeasedType[Row, Any, Any]:
        """The description of the leased type."""
        return self._kind

    @abstractmethod
    def key(self, row_id: str) -> Key:
        """The key of a row."""

    @abstractmethod
    def index(self, row: Row) -> Attributes:
        """The attributes that put a row into the indexes, and other attributes made from it.

        Those that it may have in another state are None.
        """

    async def prepare(self, settlement: Settlement[Row, AnyChange, Payload]) -> None:
        """Add what belongs to the change: writes, attributes, a row with the counts of the chunk.

        It may write what does no harm if the change is not written in the end; after a
        ConditionFailed the row is read again.
        """

    def explain(
        self, settlement: Settlement[Row, AnyChange, Payload], failed: ConditionFailed
    ) -> HeadgateError | None:
        """The error that a failed condition of the further writes means; None: try again."""
        return None

    # ---- claiming ------------------------------------------------------------------------------

    def claimed_index(self, row_id: str, until: datetime) -> Attributes:
        """The place of a claimed row among those whose lease ends, of all rows of the type."""
        partition = keys.join("claimed", self._kind.machine.name, keys.shard_of(row_id))
        return keys.index_attributes(BY_STATE, partition, keys.join(keys.time_text(until), row_id))

    def _claimed_shards(self, last: str | None = None) -> list[KeyRange]:
        partitions = keys.shards("claimed", self._kind.machine.name)
        return [KeyRange(pk=each, last=last, index=BY_STATE) for each in partitions]

    async def claim_row(
        self,
        row_id: str,
        *,
        worker: str,
        lease: timedelta,
        condition: str,
        values: Mapping[str, Any] = {},
        more: Attributes | None = None,
        first: Sequence[str] = (),
    ) -> Row | None:
        """Claim one row in one write, if the condition holds; None if it does not.

        Besides, the row must be in a state from which it can be claimed. The attributes `more` are
        set too, and the columns `first` to the time, unless they have one.
        """
        now = self.table.now()
        sources = [state.value for state in self._kind.machine.claim.sources]
        named = {f"source_{place}": each for place, each in enumerate(sources)}
        written: Attributes = {
            "state": self._kind.machine.claim.target.value,
            "lease_until": plain(now + lease),
            "worker": worker,
            self._kind.wake: None,
            "attempted_at": plain(now),
            "updated_at": plain(now),
            **self.claimed_index(row_id, now + lease),
            **(more or {}),
        }
        sets = "".join(f", #{name} = if_not_exists(#{name}, :now)" for name in first)
        change = set_and_remove(written).replace("SET ", f"SET #token = #token + :one{sets}, ", 1)
        update = Update(
            at=self.key(row_id),
            change=change,
            condition=f"#state IN ({', '.join(f':{name}' for name in named)}) AND {condition}",
            values={**written, **named, **values, "one": 1, "now": plain(now)},
        )
        try:
            item = await self.table.write(update)
        except ConditionFailed:
            return None
        assert item is not None
        return self.codec.from_item(item)

    async def extend(self, claims: Sequence[Claim], /, *, lease: timedelta) -> Mapping[str, Any]:
        """Extend the leases of these claims; returns the states of the rows still so claimed."""
        # A row may be asked for twice, under two tokens.
        states = await gather(self._extend(each, lease) for each in claims)
        return {
            claim.id: state
            for claim, state in zip(claims, states, strict=True)
            if state is not None
        }

    async def _extend(self, claim: Claim, lease: timedelta) -> Any:
        until = self.table.now() + lease
        state = self._kind.machine.claim.target
        index = self.claimed_index(claim.id, until)
        for _ in range(SETTLE_TRIES_MAX):
            written = {"lease_until": plain(until), **index}
            update = Update(
                at=self.key(claim.id),
                change=set_and_remove(written),
                condition="#token = :token AND #state = :state",
                values={**written, "token": claim.token, "state": state.value},
            )
            try:
                await self.table.write(update)
            except ConditionFailed as failed:
                [found] = failed.found
                if found is None or not self._is_claimed(found, claim.token):
                    return None
                # Claimed, but in another state, in which the index may name another time.
                row = msgspec.structs.replace(
                    self.codec.from_item(found),  # type: ignore[type-var]
                    lease_until=until,
                )
                state, index = row.state, _only_index(self.index(row), BY_STATE)
            else:
                return state
        raise StoreUnavailable(f"the {self._kind.machine.name} {claim.id!r} keeps changing")

    def _is_claimed(self, item: Attributes, token: int) -> bool:
        return item["token"] == token and item["state"] in self._claimed

    # ---- the guarded write ---------------------------------------------------------------------

    async def settle(self, change: AnyChange, payload: Payload | None = None, /) -> Row | None:
        """Apply a change and store its payload, in one transaction."""
        for _ in range(SETTLE_TRIES_MAX):
            settlement = await self._apply(change, payload)
            if settlement is None:
                return None
            try:
                await self.prepare(settlement)
            except ConditionFailed:
                continue
            try:
                await self.write([self.row_write(settlement), *settlement.writes])
            except ConditionFailed as failed:
                error = self.explain(settlement, failed)
                if error is not None:
                    raise error from None
            else:
                return settlement.row
        raise StoreUnavailable(f"the {self._kind.machine.name} {change.after.id!r} keeps changing")

    async def _apply(
        self, change: AnyChange, payload: Payload | None
    ) -> Settlement[Row, AnyChange, Payload] | None:
        item = await self.table.get(self.key(change.after.id))
        if item is None:
            return None
        found, now = self.codec.from_item(item), self.table.now()
        locked = self._kind.locked(**{name: getattr(found, name) for name in self._seen}, now=now)
        became = self._kind.apply(change, locked)
        if became is None:
            return None
        taken, row = became
        self.check_lease(row)
        return Settlement(change=taken, row=row, item=item, payload=payload, now=now)

    def check_lease(self, row: Row) -> None:
        """Refuse a row that is claimed without a lease, or has one that nobody claimed."""
        if (row.lease_until is not None) != (row.state in self._kind.machine.claimed):
            raise StoreError(
                f"the {self._kind.machine.name} {row.id!r} is {row.state.value}: "
                "what is claimed has a lease, and nothing else has one"
            )

    def row_write(self, settlement: Settlement[Row, AnyChange, Payload]) -> Update:
        """The write of the row, if everything that the rules looked at is as it was read."""
        before, row = settlement.change.before, settlement.row
        changed = [
            name for name in self._kind.if_changed if getattr(before, name) != getattr(row, name)
        ]
        written = {
            **self.codec.to_item(row, (*self._kind.always, *changed)),
            **self.index(row),
            **settlement.more,
        }
        whole = item_size(only_set({**settlement.item, **written}))
        # What a worker brings leaves room for what must always fit.
        spare = 0 if settlement.payload is None else ROW_BYTES_SPARE
        check_size(self.key(row.id), whole + spare)
        condition, seen = self.fence(settlement)
        return Update(
            at=self.key(row.id),
            change=set_and_remove(written),
            condition=condition,
            values={**written, **seen},
        )

    def fence(self, settlement: Settlement[Row, AnyChange, Payload]) -> tuple[str, Attributes]:
        """The condition that the row is as it was read: state, token and what else was seen."""
        return unchanged(settlement.item, self._seen)

    async def write(self, writes: Sequence[Write]) -> None:
        """Make the writes in one transaction, or a single one without."""
        [first, *others] = writes
        if others or not isinstance(first, Update):
            await self.table.transact(writes)
        else:
            await self.table.write(first)

    async def settle_many(
        self, batch: Sequence[tuple[AnyChange, Payload | None]], /
    ) -> Sequence[Row | None]:
        """Settle many changes, each for itself; those of one row one after another.

        The first error is raised after all have been tried.
        """
        results: list[Row | None] = [None] * len(batch)
        places: dict[str, list[int]] = {}
        for place, (change, _) in enumerate(batch):
            places.setdefault(change.after.id, []).append(place)

        async def settle_row(of_row: Sequence[int]) -> None:
            for place in of_row:
                results[place] = await self.settle(*batch[place])

        await gather(settle_row(of_row) for of_row in places.values())
        return results

    # ---- sweeping and reading ------------------------------------------------------------------

    def ends_at(self, row: Row) -> datetime | None:
        """When the claim on a row ends by itself; a subclass may know something earlier."""
        return row.lease_until

    async def list_expired(self, *, limit: int) -> Sequence[Row]:
        """Rows whose claim has ended by itself, the longest ago first."""
        now = self.table.now()
        ranges = self._claimed_shards(keys.time_text(now))
        entries = await query_shards(self.table, BY_STATE, ranges, limit=limit)
        ended = [(self.ends_at(row), row) for row in await self.read_rows(entries)]
        late = [(at, row) for at, row in ended if at is not None and at < now]
        # The index may be behind: a row may have been extended, or settled.
        return [row for _, row in sorted(late, key=lambda each: each[0])]

    async def expire(self, worker: str, /) -> int:
        """Let the leases of a worker that has died expire now; returns how many."""
        now = self.table.now()
        ranges = self._claimed_shards()
        entries = await query_shards(self.table, BY_STATE, ranges, limit=EXPIRE_MAX)
        theirs = [
            Claim(row.id, row.token)
            for row in await self.read_rows(entries)
            if row.worker == worker and row.lease_until is not None and row.lease_until > now
        ]
        return len(await self.extend(theirs, lease=AT_ONCE))

    async def next_sweep_s(self) -> float | None:
        """Seconds until the first claim ends by itself; None if nothing is claimed."""
        return await self.first_s(self._claimed_shards())

    async def first_s(self, ranges: Sequence[KeyRange]) -> float | None:
        """Seconds until the first time in these ranges of `BY_STATE`, at least 0."""
        entries = await query_shards(self.table, BY_STATE, ranges, limit=1)
        if not entries:
            return None
        first = time_of(entries[0])
        return max(0.0, (first - self.table.now()).total_seconds())

    async def read_rows(self, entries: Sequence[Attributes]) -> list[Row]:
        """The rows of these entries of an index, as they are now, in the same order."""
        wanted = [(entry["pk"], entry["sk"]) for entry in entries]
        found = await self.table.get_many(wanted)
        return [self.codec.from_item(found[key]) for key in wanted if key in found]

    async def get(self, row_id: str, /, *, user_id: str | None = None) -> Row:
        """The row; NotFound if it does not exist or belongs to another user."""
        item = await self.table.get(self.key(row_id))
        if item is None or (user_id is not None and item["user_id"] != user_id):
            raise NotFound(f"there is no {self._kind.machine.name} {row_id!r}")
        return self.codec.from_item(item)


def time_of(entry: Attributes) -> datetime:
    """The time at the beginning of an entry's sort key in `BY_STATE`."""
    text = str(entry[index_keys(BY_STATE)[1]]).partition("#")[0]
    return datetime.fromisoformat(text)


def unchanged(item: Attributes, names: Sequence[str]) -> tuple[str, Attributes]:
    """The condition that these attributes are as in the item, and its values."""
    conditions = [EXISTS]
    seen: Attributes = {}
    for name in names:
        if item.get(name) is None:
            conditions.append(f"attribute_not_exists(#{name})")
        else:
            conditions.append(f"#{name} = :seen_{name}")
            seen[f"seen_{name}"] = item[name]
    return " AND ".join(conditions), seen


def _only_index(item: Attributes, index: str) -> Attributes:
    return {name: item[name] for name in index_keys(index)}
