"""Documents on DynamoDB: larger than an item of it, and what a crash in the middle leaves."""

from random import Random

import pytest
from msgspec.structs import replace

from headgate.base.clock import ManualClock
from headgate.base.errors import StoreUnavailable
from headgate.flow.items.fetch import reset_item
from headgate.flow.leases.recover import rescue_items
from headgate.flow.leases.settle import settle_surely
from headgate.model import item as change
from headgate.model.item import Document, Item
from headgate.model.job import Lane
from headgate.ports.items import Deletion, RegisterResult
from headgate.store.dynamodb.connection_items import put_removal
from headgate.store.dynamodb.documents import PART_BYTES
from headgate.store.dynamodb.item_store import DynamoItems
from headgate.store.dynamodb.table import DynamoTable
from headgate.store.packing import compress
from tests.conformance.test_items import claim, claim_one, count_rows, new_item, settled
from tests.dynamo import client_of
from tests.dynamo_faults import Fault, first
from tests.stores import START


@pytest.fixture
def items(dynamo_table: DynamoTable) -> DynamoItems:
    return DynamoItems(dynamo_table)


async def content(items: DynamoItems, item: Item) -> bytes | None:
    """What is served of the item."""
    served = (await items.serve(item.id)).document
    return None if served is None else served.content()


def document(size: int) -> Document:
    """A document whose compressed body has that size, to some bytes."""
    body = Random(size).randbytes(size - 200)
    return Document(media_type="application/octet-stream", body=body)


SIZES = {
    "one part": PART_BYTES - 500,
    "a little more": PART_BYTES + 500,
    "three parts": 2 * PART_BYTES + 500,
    "some megabytes": 3_000_000,
}


@pytest.mark.parametrize("size", SIZES)
async def test_a_document_of_any_size_is_served_whole(items: DynamoItems, size: str) -> None:
    item, large = await claim_one(items), document(SIZES[size])
    await settled(items, change.succeed(item), large)

    served = (await items.serve(item.id)).document

    assert served is not None and served.content() == large.body
    parts = -(-len(compress(large.body)) // PART_BYTES)
    assert await count_rows(items) == (1, parts)
    [again] = await items.documents_of([item.id])
    assert again == served


async def test_an_item_and_its_document_are_one_request(items: DynamoItems) -> None:
    item = await claim_one(items)
    await settled(items, change.succeed(item), document(200_000))
    client = client_of(items.table)
    client.sent.clear()

    await items.serve(item.id)

    assert dict(client.sent) == {"query": 1}


async def test_a_smaller_document_leaves_nothing_of_the_larger_one(items: DynamoItems) -> None:
    item = await claim_one(items)
    await settled(items, change.succeed(item), document(3 * PART_BYTES))
    await reset_item(items, item.id)
    [item] = await claim(items)

    await settled(items, change.succeed(item), document(1000))

    assert await count_rows(items) == (1, 1)


async def test_what_a_lost_worker_has_left_is_never_served_and_goes_with_the_next_success(
    items: DynamoItems, clock: ManualClock
) -> None:
    # Given a worker that is lost after the parts, before the row that names them
    item = await claim_one(items)
    client = client_of(items.table)
    client.choose = first(100, Fault.UNREACHABLE, of="update_item")
    with pytest.raises(StoreUnavailable):
        await items.settle(change.succeed(item), document(2 * PART_BYTES - 2000))
    client.choose = None
    assert await count_rows(items) == (1, 2)
    assert await content(items, item) is None

    # When another fetches the item
    clock.advance(61)
    assert await rescue_items(items) == 1
    clock.advance(await items.next_due_s(item.collection, item.connection_id) or 0)
    [item] = await claim(items)
    newer = document(2 * PART_BYTES + 5000)
    await settled(items, change.succeed(item), newer)

    # Then its document is there, and nothing else
    assert await content(items, item) == newer.body
    assert await count_rows(items) == (1, 3)


async def test_a_large_document_is_replaced_after_its_successor_is_named(
    items: DynamoItems,
) -> None:
    # Given a document of many parts, and a worker that dies right after it has replaced it
    item = await claim_one(items)
    await settled(items, change.succeed(item), document(12 * PART_BYTES))
    await reset_item(items, item.id)
    [item] = await claim(items)
    client = client_of(items.table)
    client.requests.clear()
    client.choose = first(100, Fault.UNREACHABLE, of="batch_write_item")
    await settled(items, change.succeed(item), document(1000))
    client.choose = None

    # Then no transaction had to hold what was replaced: 4 MB are the most
    sent = [request for name, request in client.requests if name == "transact_write_items"]
    assert [len(request["TransactItems"]) for request in sent] == [2]
    assert await content(items, item) == document(1000).body
    assert await count_rows(items) == (1, 14)

    # And what is left goes with the next success
    await reset_item(items, item.id)
    [item] = await claim(items)
    await settled(items, change.succeed(item), document(2000))
    assert await count_rows(items) == (1, 1)


async def test_a_document_of_an_item_that_is_deleted_meanwhile_leaves_nothing(
    items: DynamoItems,
) -> None:
    # Given an item that is deleted when its worker has just seen that the claim holds
    item = await claim_one(items)
    elsewhere = DynamoItems(items.table)

    async def delete() -> None:
        deletion = Deletion(connection_id="connection_1", item_ids=[item.id])
        assert await elsewhere.delete(deletion) == 1

    client_of(items.table).after_first("get_item", delete)

    # When the worker writes the parts of its document, and finds no row to name them
    assert await items.settle(change.succeed(item), document(3 * PART_BYTES)) is None

    assert await count_rows(items) == (0, 0)


async def test_a_large_document_whose_answer_is_lost_stays(items: DynamoItems) -> None:
    item = await claim_one(items)
    client, large = client_of(items.table), document(3 * PART_BYTES)
    client.choose = first(1, Fault.ANSWER_LOST, of="update_item")

    after = await settle_surely(items, ManualClock(START), change.succeed(item), large)

    assert after is not None
    assert await content(items, item) == large.body


@pytest.mark.fault(4)
async def test_a_document_that_was_fetched_before_a_rescue_is_not_stored_after_it(
    items: DynamoItems, clock: ManualClock
) -> None:
    # Given an item that another worker claims when this one has just seen that its claim holds
    item = await claim_one(items)
    elsewhere = DynamoItems(items.table)

    async def take_over() -> None:
        clock.advance(61)
        assert await rescue_items(elsewhere) == 1
        clock.advance(await elsewhere.next_due_s(item.collection, item.connection_id) or 0)
        assert [each.id for each in await claim(elsewhere)] == [item.id]

    client_of(items.table).after_first("get_item", take_over)

    # Then it has lost the claim, and has stored nothing
    assert await items.settle(change.succeed(item), document(1000)) is None
    assert await content(items, item) is None
    assert await count_rows(items) == (1, 0)


async def test_nothing_is_registered_for_a_connection_that_is_removed_meanwhile(
    items: DynamoItems,
) -> None:
    async def remove() -> None:
        await items.table.write(put_removal("connection_1", items.table.now()))

    client_of(items.table).after_first("batch_get_item", remove)

    assert await items.register([new_item(), new_item()]) == RegisterResult(0, 0)
    assert await count_rows(items) == (0, 0)


async def test_an_item_that_is_claimed_while_it_moves_to_the_hot_lane_stays_claimed(
    items: DynamoItems,
) -> None:
    # Given an item that somebody asks for, and that a worker claims at the same moment
    new = new_item(lane=Lane.COLD)
    await items.register([new])
    elsewhere = DynamoItems(items.table)

    async def take() -> None:
        assert len(await claim(elsewhere)) == 1

    client_of(items.table).after_first("get_item", take)
    await items.register([replace(new, lane=Lane.HOT)])

    # Then it is no longer among those that wait
    client = client_of(items.table)
    client.requests.clear()
    assert await claim(items) == []
    assert [name for name, _ in client.requests] == ["query"]


async def test_items_claimed_beside_one_without_an_answer_are_worked_on(items: DynamoItems) -> None:
    await items.register([new_item() for _ in range(5)])
    client = client_of(items.table)
    client.choose = first(1, Fault.UNREACHABLE, of="update_item")

    assert len(await claim(items, limit=5)) == 4
    client.choose = None
    assert len(await claim(items, limit=5)) == 1


async def test_forgotten_items_leave_nothing(items: DynamoItems) -> None:
    item = await claim_one(items)
    await settled(items, change.succeed(item), document(2 * PART_BYTES - 2000))
    await items.register([new_item(external_id=None)])

    assert [await items.forget("connection_1", limit=5) for _ in range(2)] == [2, 0]

    assert await count_rows(items) == (0, 0)


async def test_a_deleted_item_is_not_registered_again_for_a_day(
    items: DynamoItems, clock: ManualClock
) -> None:
    # Given an item that was deleted, with one that nobody knew of
    item, unknown, other = await claim_one(items), new_item(), new_item()
    ids = [item.id, unknown.id]
    assert await items.delete(Deletion(connection_id="connection_1", item_ids=ids)) == 1
    assert await items.settle(change.succeed(item), document(1000)) is None
    assert await count_rows(items) == (0, 0)

    # When workers bring what they had read, at once and after a day
    again = new_item(id=item.id, external_id=item.external_id)
    told = [await items.register([again, unknown, other])]
    clock.advance(86_401)
    told.append(await items.register([again, unknown, other]))

    # Then only the other is there at first
    assert told == [RegisterResult(1, 0), RegisterResult(2, 0)]
