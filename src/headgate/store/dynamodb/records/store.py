"""Records: reading, paging and deleting them. What a chunk stores is in `chunk_records.py`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from headgate.base.encoding import JsonObject, from_json
from headgate.model.record import Record, RecordRow, StoredRecord
from headgate.ports.records.store import RecordFilter, RecordPosition, RecordRows
from headgate.store.dynamodb.engine import keys as catalogue
from headgate.store.dynamodb.engine.at_once import gather
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.definition import BY_USER
from headgate.store.dynamodb.engine.port import DynamoPort, on_table
from headgate.store.dynamodb.engine.rows import plain
from headgate.store.dynamodb.engine.table import DynamoTable, KeyRange
from headgate.store.dynamodb.engine.writes import Delete
from headgate.store.dynamodb.records import high_water

#: The most records that one page looks at, and the most connections.
SCAN_MAX = 10_000
#: How many of them are read at once.
_LOOK = 200
CONNECTIONS_MAX = 100


async def list_records(
    table: DynamoTable, sync: str, connection_id: str, *, after: str | None = None, limit: int
) -> Sequence[Record]:
    """Records of a connection in the order of their keys, after the key `after`."""
    items = await _read_records(table, sync, connection_id, after=after, limit=limit)
    return [Record(_key_of(item), _data(item)) for item in items]


async def _read_records(
    table: DynamoTable, sync: str, connection_id: str, *, after: str | None, limit: int
) -> list[Attributes]:
    """The next records; one more is read for `after`."""
    first = None if after is None else catalogue.own_key(after)
    which = KeyRange(pk=catalogue.records(sync, connection_id), first=first)
    more = limit if after is None else limit + 1
    items = await table.query_all(which, limit=more)
    return [item for item in items if item["sk"] != first][:limit]


async def find_by_keys(
    table: DynamoTable, syncs: Sequence[str], connection_ids: Sequence[str], keys: Sequence[str]
) -> Sequence[StoredRecord]:
    """Records of these syncs and connections under these keys."""
    places = {
        catalogue.record(sync, connection_id, key): (sync, connection_id, key)
        for sync in syncs
        for connection_id in connection_ids
        for key in keys
    }
    found = await table.get_many(list(places))
    return [
        StoredRecord(
            sync=sync,
            connection_id=connection_id,
            key=key,
            data=_data(found[place]),
            updated_at=_time(found[place]["updated_at"]),
        )
        for place, (sync, connection_id, key) in places.items()
        if place in found
    ]


async def record_hashes(
    table: DynamoTable, sync: str, connection_id: str, keys: Sequence[str]
) -> dict[str, str]:
    """The content hashes of the stored records under these keys; any number of keys."""
    found = await _under(table, sync, connection_id, keys, "hash")
    return {key: item["hash"] for key, item in found.items()}


async def record_data(
    table: DynamoTable, sync: str, connection_id: str, keys: Sequence[str]
) -> dict[str, JsonObject]:
    """The data of the stored records under these keys; any number of keys."""
    found = await _under(table, sync, connection_id, keys, "data")
    return {key: _data(item) for key, item in found.items()}


async def _under(
    table: DynamoTable, sync: str, connection_id: str, wanted: Sequence[str], attribute: str
) -> dict[str, Attributes]:
    places = [catalogue.record(sync, connection_id, key) for key in wanted]
    found = await table.get_many(places, [attribute])
    return {_key_of(item): item for item in found.values()}


async def forget_records(
    table: DynamoTable, syncs: Sequence[str], connection_id: str, keys: Sequence[str]
) -> int:
    """Delete a connection's records under these keys; returns how many there were."""
    places = [
        catalogue.record(sync, connection_id, key) for sync in syncs for key in dict.fromkeys(keys)
    ]
    found = await table.get_many(places, ["hash"])
    deleted = await gather(table.write(Delete(at=place)) for place in found)
    return sum(item is not None for item in deleted)


# ---- pages ---------------------------------------------------------------------------------


async def find_records(
    table: DynamoTable, which: RecordFilter, *, after: RecordPosition | None = None, limit: int
) -> RecordRows:
    """Records in the order of their connections and keys, after that position."""
    start = None if after is None else after.connection_id
    mine = await _owners(table, which, start=start, limit=CONNECTIONS_MAX + 1)
    rows: list[RecordRow] = []
    left = SCAN_MAX
    for owner in mine[:CONNECTIONS_MAX]:
        connection_id, user_id = owner["sk"], owner["user_id"]
        begin = after.key if after is not None and connection_id == start else None
        if left <= 0:
            return _page(rows, RecordPosition(connection_id, None), limit)
        room = limit + 1 - len(rows)
        found, looked, end = await _look(
            table, which, connection_id, begin, room=room, at_most=left
        )
        left -= looked
        rows += [_row(which.sync, connection_id, item, user_id) for item in found]
        # A connection that was not read to its end, or a full page: the next one goes on here.
        if end is not None or len(rows) > limit:
            return _page(rows, end, limit)
    more = [RecordPosition(owner["sk"], None) for owner in mine[CONNECTIONS_MAX:]]
    return _page(rows, more[0] if more else None, limit)


async def _owners(
    table: DynamoTable, which: RecordFilter, *, start: str | None, limit: int
) -> list[Attributes]:
    """The connections whose records match, each with its user, in order from `start` on."""
    if which.user_id is not None and which.connection_id is None:
        # By the index: all owners of a sync are too many to look for one user's among them.
        partition = catalogue.owners_of(which.sync, which.user_id)
        of_user = KeyRange(pk=partition, first=start, index=BY_USER)
        entries = await table.query_all(of_user, limit=limit)
        return [{**entry, "user_id": which.user_id} for entry in entries]
    first, last = start, None
    if which.connection_id is not None:
        if start is not None and start > which.connection_id:
            return []
        first = last = which.connection_id
    owners = KeyRange(pk=catalogue.owners(which.sync), first=first, last=last)
    found = await table.query_all(owners, limit=limit)
    return [owner for owner in found if which.user_id in (None, owner["user_id"])]


async def _look(
    table: DynamoTable,
    which: RecordFilter,
    connection_id: str,
    after: str | None,
    *,
    room: int,
    at_most: int,
) -> tuple[list[Attributes], int, RecordPosition | None]:
    """At most `room` matching ones of the next records, and how many were looked at.

    Besides, where these end; None: there are no more.
    """
    if which.key_prefix is None and which.since is None and which.until is None:
        found = await _read_records(table, which.sync, connection_id, after=after, limit=room)
        return found, 0, None
    matching: list[Attributes] = []
    looked = 0
    # A few at a time: those that do not match are not kept, and each may have 400 KB.
    while looked < at_most and len(matching) < room:
        some = min(_LOOK, at_most - looked)
        found = await _read_records(table, which.sync, connection_id, after=after, limit=some)
        matching += [item for item in found if _matches(item, which)]
        if len(found) < some:
            return matching[:room], looked + len(found), None
        looked, after = looked + some, _key_of(found[-1])
    end = None if after is None else RecordPosition(connection_id, after)
    return matching[:room], looked, end


async def list_under_key(
    table: DynamoTable, which: RecordFilter, key: str, *, limit: int
) -> Sequence[RecordRow]:
    """The records of different connections under this key, of the filter's sync and user."""
    rows: list[RecordRow] = []
    start: str | None = None
    while True:
        owners = await _owners(table, which, start=start, limit=CONNECTIONS_MAX + 1)
        places = {
            catalogue.record(which.sync, owner["sk"], key): owner
            for owner in owners[:CONNECTIONS_MAX]
        }
        found = await table.get_many(list(places))
        rows += [
            _row(which.sync, owner["sk"], found[place], owner["user_id"])
            for place, owner in places.items()
            if place in found
        ]
        if len(rows) >= limit or len(owners) <= CONNECTIONS_MAX:
            return rows[:limit]
        start = owners[CONNECTIONS_MAX]["sk"]


def _page(rows: list[RecordRow], end: RecordPosition | None, limit: int) -> RecordRows:
    """The first `limit` rows; `end` is where the look at the others ended, if it did early."""
    if len(rows) > limit:
        last = rows[limit - 1]
        return RecordRows(rows[:limit], RecordPosition(last.connection_id, last.key))
    return RecordRows(rows, end)


def _matches(item: Attributes, which: RecordFilter) -> bool:
    if which.key_prefix is not None and not _key_of(item).startswith(which.key_prefix):
        return False
    if which.since is not None and item["updated_at"] < plain(which.since):
        return False
    return which.until is None or bool(item["updated_at"] < plain(which.until))


def _row(sync: str, connection_id: str, item: Attributes, user_id: str) -> RecordRow:
    return RecordRow(
        sync=sync,
        connection_id=connection_id,
        key=_key_of(item),
        data=_data(item),
        created_at=_time(item["created_at"]),
        updated_at=_time(item["updated_at"]),
        user_id=user_id,
    )


def _key_of(item: Attributes) -> str:
    return catalogue.from_own_key(item["sk"])


def _data(item: Attributes) -> Any:
    return from_json(item["data"])


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


class DynamoRecords(DynamoPort):
    """Records in DynamoDB."""

    list_records = on_table(list_records)
    find_by_keys = on_table(find_by_keys)
    record_hashes = on_table(record_hashes)
    record_data = on_table(record_data)
    high_water = on_table(high_water.find_mark)
    forget_records = on_table(forget_records)
    find_records = on_table(find_records)
    list_under_key = on_table(list_under_key)
