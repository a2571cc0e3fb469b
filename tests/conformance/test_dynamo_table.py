"""A table of DynamoDB: reads and writes, refused requests, lost answers, and limits."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headgate.base.clock import ManualClock, SystemClock
from headgate.base.errors import SchemaBehind, StoreUnavailable
from headgate.store.dynamodb.engine.attributes import ITEM_BYTES_MAX, ItemTooLarge
from headgate.store.dynamodb.engine.client import TRIES_MAX
from headgate.store.dynamodb.engine.definition import BY_STATE, TTL
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.keys import index_attributes
from headgate.store.dynamodb.engine.table import DynamoTable, KeyRange
from headgate.store.dynamodb.engine.writes import IS_NEW, Check, Delete, Put, Update, Write
from tests import dynamo
from tests.dynamo_faults import Fault, FaultyClient, first

KEY = ("a", "b")
COUNT = Update(at=KEY, change="ADD #n :one", values={"one": 1})


@pytest.fixture
def table(dynamo_table: DynamoTable) -> DynamoTable:
    """An open, empty table on each emulator in turn."""
    return dynamo_table


@pytest.fixture
def client(table: DynamoTable) -> FaultyClient:
    """The client of the table, which can fail on purpose."""
    return dynamo.client_of(table)


async def test_an_item_is_read_as_it_was_written(table: DynamoTable) -> None:
    values = {"text": "é", "number": -7, "share": 0.1, "yes": True, "none": None}
    item = {"pk": "a", "sk": "b", **values, "bytes": b"\0\xff", "list": [1, {"deep": "x"}]}
    await table.write(Put(item=item))
    assert await table.get(KEY) == item
    assert await table.get(("a", "other")) is None


async def test_a_condition_that_fails_tells_what_was_found(table: DynamoTable) -> None:
    await table.write(Put(item={"pk": "a", "sk": "b", "state": 1}))
    with pytest.raises(ConditionFailed) as failed:
        await table.write(Put(item={"pk": "a", "sk": "b"}, condition=IS_NEW))
    assert failed.value.found == [{"pk": "a", "sk": "b", "state": 1}]


async def test_a_transaction_writes_all_or_nothing(table: DynamoTable) -> None:
    await table.write(Put(item={"pk": "a", "sk": "b", "n": 1}))
    writes: list[Write] = [
        Put(item={"pk": "c", "sk": "d"}),
        Update(at=KEY, change="SET #n = :new", condition="#n = :old", values={"new": 2, "old": 9}),
    ]
    with pytest.raises(ConditionFailed) as failed:
        await table.transact(writes)
    assert failed.value.failed == [False, True]
    assert await table.get(("c", "d")) is None
    check = Check(at=KEY, condition="#n = :n", values={"n": 1})
    await table.transact([writes[0], check])
    assert await table.get(("c", "d")) is not None


async def test_many_items_are_written_read_and_deleted(table: DynamoTable) -> None:
    items = [{"pk": "many", "sk": f"{number:03d}", "n": number} for number in range(230)]
    await dynamo.fill(table, items)
    keys = [("many", f"{number:03d}") for number in range(230)]
    found = await table.get_many([*keys, ("many", "none")], ["n"])
    assert [found[key]["n"] for key in keys] == list(range(230))
    await table.delete_many(keys[:200])
    left = await table.query_all(KeyRange(pk="many"), limit=1000)
    assert [item["n"] for item in left] == list(range(200, 230))


async def test_what_is_left_undone_of_a_batch_is_asked_for_again_some_times(
    table: DynamoTable, client: FaultyClient
) -> None:
    items = [{"pk": "many", "sk": f"{number:03d}"} for number in range(20)]
    keys = [(item["pk"], item["sk"]) for item in items]

    await dynamo.fill(table, items)
    client.batch_max = 4
    assert set(await table.get_many(keys)) == set(keys)
    await table.delete_many(keys[:15])
    client.batch_max = None
    assert set(await table.get_many(keys)) == set(keys[15:])

    client.batch_max = 0
    with pytest.raises(StoreUnavailable):
        await table.get_many(keys)
    with pytest.raises(StoreUnavailable):
        await table.delete_many(keys)


async def test_more_than_a_megabyte_is_counted_whole(
    table: DynamoTable, client: FaultyClient
) -> None:
    for number in range(14):
        await table.write(Put(item={"pk": "large", "sk": f"{number:02d}", "text": "x" * 100_000}))

    assert await table.count(KeyRange(pk="large")) == 14
    assert client.sent["query"] == 2


async def test_a_range_is_read_in_pages(table: DynamoTable) -> None:
    for number in range(9):
        item = {"pk": f"{number}", "sk": "x", **index_attributes(BY_STATE, "one", f"{number}")}
        await table.write(Put(item=item))
    which = KeyRange(pk="one", first="2", last="6", index=BY_STATE, newest_first=True)
    page = await table.query(which, limit=2)
    rest = await table.query(which, after=page.after)
    assert [item["pk"] for item in (*page.items, *rest.items)] == list("65432")
    assert rest.after is None
    assert await table.count(which) == 5


async def test_a_filtered_range_reads_little_where_most_match_and_all_where_few_do(
    table: DynamoTable, client: FaultyClient
) -> None:
    items = [{"pk": "many", "sk": f"{n:03d}", "even": n % 2 == 0} for n in range(200)]
    await dynamo.fill(table, items)

    async def read(even: bool, first: str, limit: int) -> tuple[int, list[int | None]]:
        client.requests.clear()
        values = {"even": even}
        which = KeyRange(pk="many", first=first, where="#even = :even", values=values)
        found = await table.query_all(which, limit=limit)
        return len(found), [request.get("Limit") for _, request in client.requests]

    assert await read(True, "000", 1) == (1, [1])
    assert await read(False, "000", 2) == (2, [2, 20])
    assert await read(True, "000", 300) == (100, [300])
    # A page of no items is none that DynamoDB gives.
    assert await read(True, "000", 0) == (0, [])


async def test_a_key_that_no_item_can_have_is_not_asked_for(
    table: DynamoTable, client: FaultyClient
) -> None:
    await table.write(Put(item={"pk": "a", "sk": "k" * 1023}))
    await table.write(Put(item={"pk": "a", "sk": "l"}))
    client.requests.clear()
    long = "k" * 1022 + "é" * 100

    assert await table.get(("a", long)) is None
    assert await table.get(("p" * 3000, "b")) is None
    assert set(await table.get_many([("a", long), ("a", "l"), ("a", "")])) == {("a", "l")}
    after = await table.query_all(KeyRange(pk="a", first=long), limit=10)
    before = await table.query_all(KeyRange(pk="a", last=long), limit=10)

    assert [item["sk"] for item in after] == ["l"]
    assert [item["sk"] for item in before] == ["k" * 1023]
    # The emulators compare with any text.
    sent = [value for _, request in client.requests for value in _texts(request)]
    assert max(len(text.encode()) for text in sent) <= 1024


def _texts(request: Any) -> Iterator[str]:
    """All texts in a request."""
    if isinstance(request, str):
        yield request
    else:
        values = request.values() if isinstance(request, dict) else request
        for each in values if isinstance(request, dict | list) else ():
            yield from _texts(each)


@pytest.mark.parametrize("fault", list(Fault))
async def test_a_read_is_repeated_after_any_fault(
    table: DynamoTable, client: FaultyClient, fault: Fault
) -> None:
    await table.write(Put(item={"pk": "a", "sk": "b"}))
    client.choose = first(TRIES_MAX - 1, fault, of="get_item")
    assert await table.get(KEY) is not None
    client.choose = first(TRIES_MAX, fault, of="get_item")
    with pytest.raises(StoreUnavailable):
        await table.get(KEY)


@pytest.mark.parametrize("fault", list(Fault))
async def test_a_transaction_is_made_once_whatever_happens(
    table: DynamoTable, client: FaultyClient, fault: Fault
) -> None:
    """Where the server does not know it by its token, the outcome counts as unknown."""
    client.choose = first(2, fault, of="transact_write_items")
    count = Update(at=KEY, change="ADD #n :one", condition=IS_NEW, values={"one": 1})
    try:
        await table.transact([count])
    except StoreUnavailable:
        assert fault is Fault.ANSWER_LOST
    item = await table.get(KEY)
    assert item is not None
    assert item["n"] == 1


async def test_a_transaction_has_one_token_however_often_it_is_sent(
    table: DynamoTable, client: FaultyClient
) -> None:
    """By it DynamoDB knows a transaction that it has made; not every emulator does."""
    client.choose = first(2, Fault.UNREACHABLE, of="transact_write_items")
    for number in range(2):
        await table.transact([Put(item={"pk": f"{number}", "sk": "b"})])

    sent = [request for name, request in client.requests if name == "transact_write_items"]
    tokens = [request["ClientRequestToken"] for request in sent]
    assert len(tokens) == 4 and tokens[0] == tokens[1] == tokens[2] != tokens[3]


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.UNREACHABLE, Fault.ERROR])
async def test_the_outcome_of_a_write_without_an_answer_is_unknown(
    table: DynamoTable, client: FaultyClient, fault: Fault
) -> None:
    client.choose = first(1, fault, of="update_item")
    with pytest.raises(StoreUnavailable):
        await table.write(COUNT)
    assert client.sent["update_item"] == 1


async def test_a_failure_of_what_stands_before_dynamodb_is_no_answer(
    table: DynamoTable, client: FaultyClient
) -> None:
    """Its answer has a status, and no name that DynamoDB gives to an error."""

    def fail(operation: str, request: Any) -> None:
        client.choose = None
        answer = {"Error": {"Code": "502"}, "ResponseMetadata": {"HTTPStatusCode": 502}}
        raise ClientError(answer, operation)  # type: ignore[arg-type]

    client.choose = fail
    assert await table.get(KEY) is None
    assert client.sent["get_item"] == 2
    client.choose = fail
    with pytest.raises(StoreUnavailable):
        await table.write(COUNT)
    assert client.sent["update_item"] == 1


@pytest.mark.parametrize("fault", [Fault.THROUGHPUT, Fault.THROTTLED, Fault.CONFLICT])
async def test_a_refused_write_is_sent_again_after_growing_rests(
    table: DynamoTable, client: FaultyClient, clock: ManualClock, fault: Fault
) -> None:
    began = clock.now()
    client.choose = first(4, fault, of="update_item")
    await table.write(COUNT)
    assert client.sent["update_item"] == 5
    # 50, 100, 200 and 400 ms, each at least half of that.
    assert timedelta(seconds=0.375) <= clock.now() - began <= timedelta(seconds=0.75)


async def test_what_dynamodb_would_refuse_is_not_sent(
    table: DynamoTable, client: FaultyClient
) -> None:
    client.sent.clear()
    big = "x" * (ITEM_BYTES_MAX // 2)
    refused: list[list[Write]] = [
        [Put(item={"pk": "a", "sk": "b", "text": big, "more": big})],
        [Put(item={"pk": "", "sk": "b"})],
        [Delete(at=("a", "k" * 1025))],
        [Put(item={"pk": "p" * 2049, "sk": "b"})],
        [Put(item={"pk": f"{n}", "sk": "b"}) for n in range(101)],
        [Put(item={"pk": f"{n}", "sk": "b", "text": big}) for n in range(21)],
    ]
    for writes in refused:
        with pytest.raises(ItemTooLarge):
            await table.transact(writes)
    assert not client.sent


async def test_a_table_that_is_missing_is_named(ministack_address: str, clock: ManualClock) -> None:
    table = dynamo.table_on(ministack_address, "nowhere", clock)
    await table.open()
    try:
        with pytest.raises(SchemaBehind, match="nowhere"):
            await table.get(KEY)
    finally:
        await table.close()


async def test_a_table_is_whole_whoever_was_interrupted_while_it_was_made(
    dynamo_table: DynamoTable, clock: ManualClock
) -> None:
    """What has ended is deleted by DynamoDB, by a rule of its own: the second request."""
    table = await _beside(dynamo_table, clock)
    client = dynamo.client_of(table)
    client.choose = first(1, Fault.UNREACHABLE, of="update_time_to_live")
    try:
        with pytest.raises(StoreUnavailable):
            await table.create()
        assert not await table.create()
        assert not await table.create()
        found = await client.send("describe_time_to_live", {"TableName": table.name})
    finally:
        await table.close()
    rule = found["TimeToLiveDescription"]
    assert (rule["TimeToLiveStatus"], rule["AttributeName"]) == ("ENABLED", TTL)
    assert client.sent["update_time_to_live"] == 2


async def test_of_two_who_make_a_table_at_once_both_go_on(
    table: DynamoTable, clock: ManualClock
) -> None:
    slower, faster = [await _beside(table, clock) for _ in range(2)]
    client = dynamo.client_of(slower)

    def see_none(operation: str, request: Any) -> None:
        """Answer the first look as it was before the other began."""
        client.choose = None
        missing = {"Error": {"Code": "ResourceNotFoundException", "Message": "on purpose"}}
        raise ClientError(missing, operation)  # type: ignore[arg-type]

    client.choose = see_none
    try:
        assert await faster.create()
        assert not await slower.create()
        assert client.sent["create_table"] == 1
    finally:
        await slower.close()
        await faster.close()


async def _beside(table: DynamoTable, clock: ManualClock) -> DynamoTable:
    """An open table that is not made yet, on the same emulator."""
    other = dynamo.table_on(table.client.address.endpoint or "", f"{table.name}_beside", clock)
    await other.open()
    return other


async def test_the_time_agrees_with_the_answers_of_dynamodb(
    ministack_address: str, clock: ManualClock
) -> None:
    """The manual clock stands months away from the server's."""
    table = dynamo.table_on(ministack_address, "timed", clock, server_time=True)
    await table.open()
    try:
        await table.create()
        assert abs(table.now() - SystemClock().now()) < timedelta(seconds=5)
    finally:
        await table.close()
