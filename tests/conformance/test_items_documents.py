"""Documents and counts of items, on both SQL databases."""

import gzip
import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from headgate.base.clock import ManualClock
from headgate.base.errors import NotFound
from headgate.flow.items.fetch import reset_item
from headgate.model import item as change
from headgate.model.item import Document, Item
from headgate.model.job import Lane
from headgate.model.states import ItemState
from headgate.ports.items import ItemCounts, RegisterResult
from headgate.store.sql.connections.store import SqlConnections
from headgate.store.sql.engine.database import Database
from headgate.store.sql.items.store import SqlItems
from tests import stores
from tests.conformance.test_connections import added
from tests.conformance.test_items import (
    DOCUMENT,
    MINUTE,
    STREAMS,
    claim,
    claim_one,
    count_rows,
    ids,
    new_item,
    registered,
    settled,
)

DAY = timedelta(days=1)


# ---- documents ---------------------------------------------------------------------------------


async def test_a_document_is_stored_with_the_success_and_served_as_it_was_encoded(
    items: SqlItems, clock: ManualClock
) -> None:
    # Given an item that was fetched
    item = await claim_one(items)
    clock.advance(3)
    data = {"time": [0, 1], "latlng": [[1.5, 2.25], [1.5, 2.5]], "note": ["ä", None]}
    about = {"size": 2, "names": ["latlng", "note", "time"], "deep": {"ä": None}}
    document = Document.of_json(data, about)
    await settled(items, change.succeed(item), document)

    # When it is served
    served = await items.serve(item.id, user_id="user_1")

    # Then the bytes are what a client that takes gzip is sent, and hold what was fetched
    stored = served.document
    assert served.item == await items.get(item.id)
    assert served.item.state is ItemState.SUCCESS
    assert stored is not None
    assert (stored.media_type, stored.encoding) == ("application/json", "gzip")
    assert gzip.decompress(stored.body) == document.body == stored.content()
    assert json.loads(stored.content()) == data
    assert stored.attributes == about
    assert stored.fetched_at == clock.now()


async def test_a_document_is_any_bytes_of_any_media_type(items: SqlItems) -> None:
    for body in (b"", bytes(range(256)) * 300):
        item = await claim_one(items)
        await settled(items, change.succeed(item), Document(media_type="image/png", body=body))

        stored = (await items.serve(item.id)).document

        assert stored is not None
        assert (stored.media_type, stored.attributes) == ("image/png", {})
        assert stored.content() == body
        assert stored == (await items.documents_of([item.id]))[0]


async def test_equal_documents_are_equal_bytes_and_others_have_another_hash(
    items: SqlItems,
) -> None:
    await registered(items, 3)
    first, second, third = await claim(items, 3)
    other = Document.of_json({"time": [0, 1, 3]})
    for item, document in ((first, DOCUMENT), (second, DOCUMENT), (third, other)):
        await settled(items, change.succeed(item), document)

    stored = [(await items.serve(each.id)).document for each in (first, second, third)]

    [one, same, another] = [each for each in stored if each is not None]
    assert (one.body, one.hash) == (same.body, same.hash)
    assert another.hash != one.hash


async def test_what_is_fetched_anew_takes_the_place_of_what_was_there(items: SqlItems) -> None:
    # Given a document, and an item that was reset after it
    item = await claim_one(items)
    await settled(items, change.succeed(item), DOCUMENT)
    await reset_item(items, item.id)
    assert (await items.serve(item.id)).document is None

    # When it is fetched again
    [item] = await claim(items)
    newer = Document.of_json({"time": [7]}, {"newer": True})
    await settled(items, change.succeed(item), newer)

    # Then there is one document, the newer
    served = (await items.serve(item.id)).document
    assert served is not None and served.content() == newer.body
    assert served.attributes == {"newer": True}
    assert await count_rows(items) == (1, 1)


async def test_without_a_document_the_state_alone_is_served(items: SqlItems) -> None:
    made: tuple[Callable[[Item], change.ItemChange], ...] = (
        lambda item: change.fail(item, error="Malformed: x", after=MINUTE),
        lambda item: change.defer(item, after=timedelta(minutes=1), error="429"),
        lambda item: change.find_nothing(item, reason="404"),
    )
    for make in made:
        item = await claim_one(items)
        after = await settled(items, make(item))

        served = await items.serve(item.id)

        assert (served.item, served.document) == (after, None)


async def test_a_success_is_never_without_a_document_of_bytes_nor_a_failure_with_one(
    items: SqlItems,
) -> None:
    item = await claim_one(items)
    text: Any = "a text"
    broken = Document(media_type="text/plain", body=text)

    for made, document, error in (
        (change.succeed(item), None, AssertionError),
        (change.release(item), DOCUMENT, AssertionError),
        (change.succeed(item), broken, TypeError),
    ):
        with pytest.raises(error):
            await items.settle_many([(made, document)])

    assert (await items.get(item.id)).state is ItemState.FETCHING


async def test_another_users_item_is_as_if_it_were_not_there(items: SqlItems) -> None:
    item = await claim_one(items)
    await settled(items, change.succeed(item), DOCUMENT)

    with pytest.raises(NotFound):
        await items.serve(item.id, user_id="user_2")
    with pytest.raises(NotFound):
        await items.get(item.id, user_id="user_2")
    assert (await items.get(item.id, user_id="user_1")).id == item.id


# ---- listing and counting ----------------------------------------------------------------------


async def test_items_are_listed_by_user_and_state_page_by_page(items: SqlItems) -> None:
    mine = await registered(items, 5)
    await registered(items, 2, user_id="user_2")
    await claim(items, 2)

    first = await items.list_items(STREAMS, user_id="user_1", limit=3)
    rest = await items.list_items(STREAMS, user_id="user_1", limit=3, after=first[-1].id)
    fetching = await items.list_items(STREAMS, states=[ItemState.FETCHING], limit=9)
    everything = await items.list_items(STREAMS, limit=99)

    assert ids([*first, *rest]) == mine
    assert ids(fetching) == mine[:2]
    assert len(everything) == 7


async def test_the_census_tells_every_state_and_how_often_the_failed_have_failed(
    items: SqlItems,
) -> None:
    # Given one of each, and some that failed more than once
    await registered(items, 10)
    taken = await claim(items, 8)
    await settled(items, change.succeed(taken[0]), DOCUMENT)
    await settled(items, change.find_nothing(taken[1], reason="404"))
    await settled(items, change.defer(taken[2], after=timedelta(0), error="429", limited=True))
    for place, item in enumerate(taken[3:6]):
        await settled(items, change.fail(item, error="x", after=None if place else MINUTE))
    await registered(items, 4, collection="strava.laps")

    counted = await items.count_items(STREAMS)

    assert counted == ItemCounts(
        states={
            ItemState.PENDING: 2,
            ItemState.FETCHING: 2,
            ItemState.SUCCESS: 1,
            ItemState.FAILED: 3,
            ItemState.DEFERRED: 1,
            ItemState.UNAVAILABLE: 1,
        },
        retries={1: 3},
    )
    assert await items.count_stuck(STREAMS) == 2


async def test_retries_are_told_by_their_number(items: SqlItems, clock: ManualClock) -> None:
    await registered(items, 3)
    for _ in range(2):
        # The oldest fails every time, the next only the first time.
        taken = await claim(items, 2)
        for item in taken:
            await settled(items, change.fail(item, error="x", after=timedelta(0)))
        clock.advance(1)
    [item] = await claim(items, 1)
    await settled(items, change.fail(item, error="x", after=None))

    assert (await items.count_items(STREAMS)).retries == {2: 1, 3: 1}


async def test_progress_is_a_users_own(items: SqlItems) -> None:
    await registered(items, 3)
    await registered(items, 5, user_id="user_2", connection_id="connection_2")
    [item] = await claim(items)
    await settled(items, change.succeed(item), DOCUMENT)

    progress = await items.progress(STREAMS, "user_1")

    none = dict.fromkeys(ItemState, 0)
    assert progress == {**none, ItemState.PENDING: 2, ItemState.SUCCESS: 1}
    assert await items.progress(STREAMS, "nobody") == none


async def test_refusals_by_the_limit_are_counted_for_a_day_also_after_a_success(
    items: SqlItems, clock: ManualClock
) -> None:
    # Given two that were refused, one by the provider and one by our own budget
    await registered(items, 2)
    first, second = await claim(items, 2)
    await settled(items, change.defer(first, after=timedelta(0), error="429", limited=True))
    await settled(items, change.defer(second, after=timedelta(0), error="spent"))
    [again, _] = await claim(items, 2)
    await settled(items, change.succeed(again), DOCUMENT)

    assert await items.count_limited(STREAMS, within=DAY) == 1
    clock.advance(DAY.total_seconds())
    assert await items.count_limited(STREAMS, within=DAY) == 0


async def test_the_progress_of_a_connection_is_what_is_left_of_its_items(
    items: SqlItems, clock: ManualClock
) -> None:
    # Given items in several states, of two lanes, collections and connections
    for item in await _claimed(items, 4):
        changes = (
            (change.succeed(item), DOCUMENT),
            (change.find_nothing(item, reason="none"), None),
            (change.fail(item, error="x", after=None), None),
            (change.fail(item, error="x", after=timedelta(minutes=1)), None),
        )
        await settled(items, *changes[int(item.id[-1]) % 4])
    clock.advance(60)
    began = clock.now()
    await registered(items, 2, lane=Lane.HOT)
    await registered(items, 1, collection="strava.activities")
    await registered(items, 1, connection_id="connection_2")
    streams, activities = (STREAMS, "connection_1"), ("strava.activities", "connection_1")
    of = [streams, activities, (STREAMS, "connection_2"), ("none", "connection_2")]

    async def progress(**fields: Any) -> list[tuple[int, int]]:
        found = await items.progress_of_connections(of, **fields)
        return [(sum(found[each].states.values()), found[each].left) for each in of]

    # Then those are left that are still to be fetched; what failed for good is not
    assert await progress() == [(6, 3), (1, 1), (1, 1), (0, 0)]
    assert await progress(lane=Lane.HOT) == [(2, 2), (0, 0), (0, 0), (0, 0)]
    assert await progress(since=began) == [(3, 3), (1, 1), (1, 1), (0, 0)]
    [hot, *_] = await claim(items, 1, lane=Lane.HOT)
    await settled(items, change.succeed(hot), DOCUMENT)
    assert await progress(since=began) == [(3, 2), (1, 1), (1, 1), (0, 0)]
    found = (await items.progress_of_connections([streams]))[streams]
    assert (found.states[ItemState.SUCCESS], found.states[ItemState.FAILED]) == (2, 2)
    assert set(found.states) == set(ItemState)
    # And none is told of but those that were asked for
    assert [*await items.progress_of_connections(of[1:])] == of[1:]
    assert await items.progress_of_connections([]) == {}


async def _claimed(items: SqlItems, count: int) -> Sequence[Item]:
    """So many items, whose ids end in as many different digits."""
    await items.register([new_item(id=f"counted_{number}") for number in range(count)])
    return await claim(items, count)


# ---- forgetting --------------------------------------------------------------------------------


async def test_a_connections_items_are_forgotten_with_their_documents(items: SqlItems) -> None:
    # Given a connection with documents, and another
    await registered(items, 3)
    await items.register([new_item(external_id=None)])
    for item in await claim(items, 2):
        await settled(items, change.succeed(item), DOCUMENT)
    [other] = await registered(items, 1, connection_id="connection_2")

    # When it is forgotten, some at a time
    counts = [await items.forget("connection_1", limit=3) for _ in range(3)]

    # Then only the other's are left
    assert counts == [3, 1, 0]
    assert await count_rows(items) == (1, 0)
    assert ids(await items.list_items(STREAMS, limit=9)) == [other]


async def test_nothing_is_registered_for_a_connection_that_was_removed(
    items: SqlItems, database: Database
) -> None:
    # Given a connection that was removed while somebody looked for its items
    unknown = new_item(connection_id="conn_1", external_id=None)
    await items.register([unknown])
    accounts = SqlConnections(database)
    await added(accounts)
    await accounts.remove("conn_1")

    # When what was found is registered, with what is another's
    late, other = new_item(connection_id="conn_1"), new_item(connection_id="conn_2")
    known = replace(unknown, external_id="e1")
    told = await items.register([late, other, known])

    # Then the other's alone is there, and nothing is set going
    assert told == RegisterResult(1, 0)
    assert await items.register([late]) == RegisterResult(0, 0)
    assert ids(await items.list_items(None, limit=9)) == sorted([unknown.id, other.id])
    assert (await items.get(unknown.id)).state is ItemState.UNAVAILABLE


async def test_what_removed_connections_left_is_forgotten_some_at_a_time(
    items: SqlItems, database: Database, clock: ManualClock
) -> None:
    # Given two connections that were removed before their items were, and one that is there
    accounts = SqlConnections(database)
    for number, account in ((1, "athlete 7"), (2, "athlete 8"), (3, "athlete 9")):
        await added(accounts, f"conn_{number}", external_id=account)
        await registered(items, 3, connection_id=f"conn_{number}")
    for item in await claim(items, 2, connection_id="conn_1"):
        await settled(items, change.succeed(item), DOCUMENT)
    for number in (1, 2):
        await accounts.remove(f"conn_{number}")

    # When they are swept up
    counts = [await items.forget_removed(limit=2) for _ in range(5)]

    # Then only the other's items are left
    assert sorted(counts) == [0, 1, 1, 2, 2] and counts[-1] == 0
    assert await count_rows(items) == (3, 0)
    assert {item.connection_id for item in await items.list_items(None, limit=9)} == {"conn_3"}
    # And they are remembered for a week.
    rows = await items.database.read(stores.contents)
    assert len(rows["removed_connections"]) == 2
    clock.advance(timedelta(days=8).total_seconds())
    assert await items.forget_removed(limit=2) == 0
    assert (await items.database.read(stores.contents))["removed_connections"] == []


async def test_what_is_not_yet_forgotten_is_remembered_however_old(
    items: SqlItems, database: Database, clock: ManualClock
) -> None:
    accounts = SqlConnections(database)
    await added(accounts)
    await registered(items, 3, connection_id="conn_1")
    await accounts.remove("conn_1")
    clock.advance(timedelta(days=30).total_seconds())

    assert [await items.forget_removed(limit=2) for _ in range(3)] == [2, 1, 0]
    assert await items.list_items(None, limit=9) == []
