"""Items on both SQL databases: registering, claiming, fencing, rescuing, and what a row may say."""

import itertools
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import asdict, replace
from sqlalchemy import insert

from headgate.base.clock import ManualClock
from headgate.base.errors import NotFound, StoreError
from headgate.flow.items.fetch import reset_item
from headgate.flow.leases.recover import rescue_items
from headgate.flow.registry import Collection
from headgate.model import item as change
from headgate.model.item import Document, Item
from headgate.model.job import Lane
from headgate.model.lease import Claim
from headgate.model.states import ItemState
from headgate.policy.items import ItemRetryPolicy
from headgate.ports.items import NewItem, RegisterResult
from headgate.store.sql.engine.database import Database
from headgate.store.sql.items.store import SqlItems
from headgate.store.sql.tables import items as items_table
from tests import stores
from tests.stores import LEASE, START

STREAMS = "strava.streams"
MINUTE = timedelta(minutes=1)
_numbers = itertools.count(1)


# ---- builders ----------------------------------------------------------------------------------


def new_item(**fields: Any) -> NewItem:
    """An item to register, a minute younger than the last."""
    number = next(_numbers)
    given = {
        "id": f"item_{number:06d}",
        "collection": STREAMS,
        "user_id": "user_1",
        "connection_id": "connection_1",
        "external_id": f"external_{number}",
        "start_time": START + number * MINUTE,
        **fields,
    }
    return NewItem(**given)


async def registered(items: SqlItems, count: int, **fields: Any) -> list[str]:
    """Register so many; their ids, the oldest first."""
    found = [new_item(**fields) for _ in range(count)]
    await items.register(found)
    return [each.id for each in found]


async def claim(
    items: SqlItems,
    limit: int = 1,
    *,
    connection_id: str = "connection_1",
    lease: timedelta = LEASE,
    worker: str = "worker_1",
    lane: Lane | None = None,
) -> Sequence[Item]:
    return await items.claim(
        STREAMS, connection_id, limit=limit, lease=lease, worker=worker, lane=lane
    )


async def claim_one(items: SqlItems, **fields: Any) -> Item:
    """Register an item and claim it; nothing else may be due."""
    [item_id] = await registered(items, 1, **fields)
    [item] = await claim(items)
    assert item.id == item_id
    return item


async def settled(
    items: SqlItems, made: change.ItemChange, document: Document | None = None
) -> Item:
    """Apply a change that must take effect."""
    [after] = await items.settle_many([(made, document)])
    assert after is not None
    # What is told is what is there.
    assert after == await items.get(after.id)
    return after


async def lost(items: SqlItems, made: change.ItemChange, document: Document | None = None) -> bool:
    """Whether the change came too late, and nothing at all was written."""
    before = await everything(items)
    [after] = await items.settle_many([(made, document)])
    return after is None and await everything(items) == before


async def everything(items: SqlItems) -> Any:
    """All that the database holds: compare two to see that nothing was written between."""
    return await items.database.read(stores.contents)


async def count_rows(items: SqlItems) -> tuple[int, int]:
    """How many items are stored, and how many documents."""
    found = await everything(items)
    return len(found["items"]), len(found["item_documents"])


def ids(of: Sequence[Item]) -> list[str]:
    return [item.id for item in of]


DOCUMENT = Document.of_json({"time": [0, 1, 2]}, {"points": 3})


# ---- registering -------------------------------------------------------------------------------


async def test_an_item_is_registered_once_and_is_due_at_once(items: SqlItems) -> None:
    found = new_item()

    first = await items.register([found])
    again = await items.register([found, found])

    assert (first, again) == (RegisterResult(1, 0), RegisterResult(0, 0))
    item = await items.get(found.id)
    assert item.state is ItemState.PENDING
    assert item.next_attempt_at == item.created_at == START
    assert (item.retry_count, item.deferrals, item.crashes, item.token) == (0, 0, 0, 0)
    # A thing of the provider's is one item whoever finds it
    same = new_item(external_id=found.external_id)
    assert await items.register([same, new_item()]) == RegisterResult(1, 0)


async def test_what_has_no_id_is_unavailable_without_a_request_until_it_has_one(
    items: SqlItems,
) -> None:
    # Given two without an id at the provider, which nobody can claim
    first, second = new_item(external_id=None), new_item(external_id=None)
    assert await items.register([first, second]) == RegisterResult(2, 0)
    assert (await items.get(first.id)).state is ItemState.UNAVAILABLE
    assert await claim(items) == []

    # When the id of one appears
    told = await items.register([replace(first, external_id="e1"), second])

    # Then it alone is set going
    assert told == RegisterResult(0, 1)
    assert ids(await claim(items, 10)) == [first.id]
    # And the other is not by an id that is another item's
    assert await items.register([replace(second, external_id="e1")]) == RegisterResult(0, 0)
    assert (await items.get(second.id)).state is ItemState.UNAVAILABLE


async def test_what_has_ended_is_not_set_going_or_hurried_by_being_found_again(
    items: SqlItems,
) -> None:
    for unavailable in (True, False):
        item = await claim_one(items)
        made = change.find_nothing(item, reason="404") if unavailable else change.succeed(item)
        ended = await settled(items, made, None if unavailable else DOCUMENT)

        again = new_item(id=item.id, external_id=item.external_id, lane=Lane.HOT)
        assert await items.register([again]) == RegisterResult(0, 0)
        found = await items.get(item.id)
        assert (found.state, found.lane) == (ended.state, Lane.COLD)


async def test_many_are_registered_together(items: SqlItems) -> None:
    # More than one statement takes; an emulator would take long.
    many = 2500
    found = [new_item(external_id=None if n % 2 else f"many_{n}") for n in range(many)]
    assert await items.register(found) == RegisterResult(many, 0)

    known = [replace(each, external_id=f"at last {each.id}") for each in found[1::2]]
    assert await items.register(known) == RegisterResult(0, many // 2)


# ---- claiming ----------------------------------------------------------------------------------


async def test_a_claim_takes_the_oldest_first_and_hot_before_all(items: SqlItems) -> None:
    old, middle = await registered(items, 2)
    [hot] = await registered(items, 1, lane=Lane.HOT)
    [young] = await registered(items, 1)

    taken = await claim(items, 3)

    assert ids(taken) == [hot, old, middle]
    assert ids(await claim(items, 3)) == [young]


async def test_a_claim_is_of_one_connection_and_one_collection(items: SqlItems) -> None:
    [mine] = await registered(items, 1, connection_id="connection_1")
    [other] = await registered(items, 1, connection_id="connection_2")
    [elsewhere] = await registered(items, 1, collection="strava.laps")

    assert ids(await claim(items, 10, connection_id="connection_2")) == [other]
    assert ids(await claim(items, 10)) == [mine]
    taken = await items.claim("strava.laps", "connection_1", limit=10, lease=LEASE, worker="w")
    assert ids(taken) == [elsewhere]


async def test_what_is_registered_again_as_hot_goes_first(items: SqlItems) -> None:
    # Given three, of which the youngest is asked for
    old, _, wanted = await registered(items, 3)
    asked = new_item(id=wanted, lane=Lane.HOT)
    assert await items.register([asked]) == RegisterResult(0, 0)

    # Then it goes before the backfill, alone where hot ones are claimed, and stays hot
    [item] = await claim(items, 2, lane=Lane.HOT)
    assert (item.id, item.lane) == (wanted, Lane.HOT)
    await settled(items, change.release(item))
    assert ids(await claim(items, 2)) == [wanted, old]


async def test_the_next_is_due_when_it_waits_for_that_or_anothers_claim_ends(
    items: SqlItems,
) -> None:
    # Given nothing, then one that another has, then one that waits for less than that
    assert await items.next_due_s(STREAMS, "connection_1") is None
    await registered(items, 2)
    first, second = await claim(items, 2)
    assert await items.next_due_s(STREAMS, "connection_1") == LEASE.total_seconds()
    await settled(items, change.fail(first, error="x", after=timedelta(seconds=20)))

    assert await items.next_due_s(STREAMS, "connection_1") == 20.0
    assert await items.next_due_s(STREAMS, "connection_1", lane=Lane.HOT) is None
    assert await items.next_due_s(STREAMS, "connection_2") is None

    # And when both are over, nothing is left
    await settled(items, change.succeed(second), DOCUMENT)
    await settled(items, change.reset(await items.get(first.id)))
    [again] = await claim(items)
    await settled(items, change.find_nothing(again, reason="none"))
    assert await items.next_due_s(STREAMS, "connection_1") is None


async def test_only_what_waits_is_claimed(items: SqlItems) -> None:
    for state in ItemState:
        item = await brought_to(items, state)

        again = await claim(items, 10)

        waits = state in (ItemState.PENDING, ItemState.FAILED, ItemState.DEFERRED)
        assert ids(again) == ([item.id] if waits else [])


async def brought_to(items: SqlItems, state: ItemState) -> Item:
    """An item in that state; where it waits, it is due."""
    item = await claim_one(items)
    match state:
        case ItemState.PENDING:
            return await settled(items, change.release(item))
        case ItemState.FETCHING:
            return item
        case ItemState.SUCCESS:
            return await settled(items, change.succeed(item), DOCUMENT)
        case ItemState.FAILED:
            return await settled(items, change.fail(item, error="x", after=timedelta(0)))
        case ItemState.DEFERRED:
            return await settled(items, change.defer(item, after=timedelta(0), error="x"))
        case ItemState.UNAVAILABLE:
            return await settled(items, change.find_nothing(item, reason="x"))


async def test_a_failure_waits_its_time_and_the_third_waits_for_an_operator(
    items: SqlItems, clock: ManualClock
) -> None:
    # Given an item that fails twice, and waits each time
    item = await claim_one(items)
    for number, wait_s in enumerate((60, 300), 1):
        after = await settled(
            items, change.fail(item, error="Transient: x", after=timedelta(seconds=wait_s))
        )
        assert (after.state, after.retry_count) == (ItemState.FAILED, number)
        assert await items.next_due_s(STREAMS, "connection_1") == wait_s
        clock.advance(wait_s - 1)
        assert await claim(items) == []
        clock.advance(1)
        [item] = await claim(items)

    # When it fails for the third time
    after = await settled(items, change.fail(item, error="Transient: x", after=None))

    # Then no time sets it going, but a reset does, with a clean sheet
    assert (after.retry_count, after.stuck) == (3, True)
    clock.advance(30 * 86_400)
    assert await claim(items) == []
    assert await items.next_due_s(STREAMS, "connection_1") is None
    fresh = await reset_item(items, item.id)
    assert (fresh.state, fresh.retry_count, fresh.error) == (ItemState.PENDING, 0, None)
    assert ids(await claim(items)) == [item.id]


async def test_a_deferral_waits_until_the_reset_and_burns_no_try(
    items: SqlItems, clock: ManualClock
) -> None:
    item = await claim_one(items)
    quarter = timedelta(seconds=900)
    after = await settled(items, change.defer(item, after=quarter, error="429", limited=True))

    assert (after.state, after.deferred_until) == (ItemState.DEFERRED, START + quarter)
    assert (after.retry_count, after.deferrals, after.limited_at) == (0, 1, START)
    clock.advance(899)
    assert await claim(items) == []
    clock.advance(1)
    [again] = await claim(items)
    assert (again.deferred_until, again.deferrals) == (None, 1)


# ---- the fence ---------------------------------------------------------------------------------


async def test_a_reset_starts_an_item_afresh_from_every_state_and_shuts_its_holder_out(
    items: SqlItems,
) -> None:
    for state in ItemState:
        item = await brought_to(items, state)

        fresh = await reset_item(items, item.id)

        assert (fresh.state, fresh.deferred_until) == (ItemState.PENDING, None)
        if state is ItemState.FETCHING:
            assert fresh.token == item.token + 1
            assert await lost(items, change.succeed(item), DOCUMENT)
            assert await items.extend([Claim(item.id, item.token)], lease=LEASE) == {}
        assert ids(await claim(items)) == [item.id]


async def test_of_a_batch_the_lost_ones_leave_no_document(items: SqlItems) -> None:
    await registered(items, 2)
    first, second = await claim(items, 2)
    await settled(items, change.release(second))

    await items.settle_many([(change.succeed(second), DOCUMENT), (change.succeed(first), DOCUMENT)])

    assert (await items.serve(second.id)).document is None
    assert (await items.serve(first.id)).document is not None


# ---- leases ------------------------------------------------------------------------------------


async def test_an_item_that_takes_down_every_worker_is_left_alone_in_the_end(
    items: SqlItems, clock: ManualClock
) -> None:
    known = {STREAMS: Collection(name=STREAMS, title="Streams")}
    item = await claim_one(items)
    for _ in range(ItemRetryPolicy().crashes_max - 1):
        clock.advance(61)
        assert await rescue_items(items, known) == 1
        clock.advance(await items.next_due_s(STREAMS, "connection_1") or 0)
        [item] = await claim(items)
    clock.advance(61)
    assert await rescue_items(items, known) == 1

    after = await items.get(item.id)
    assert (after.state, after.stuck) == (ItemState.FAILED, True)
    assert after.error == ItemRetryPolicy().lost_error
    assert (after.crashes, after.retry_count) == (ItemRetryPolicy().crashes_max, 0)
    assert await items.count_stuck(STREAMS) == 1


async def test_a_collection_says_how_many_workers_an_item_may_take_down(
    items: SqlItems, clock: ManualClock
) -> None:
    # Given an item of a collection that forgives nothing, and one that nobody here has declared
    strict = Collection(name=STREAMS, title="Streams", retry=ItemRetryPolicy(crashes_max=1))
    item = await claim_one(items)
    [unknown] = await registered(items, 1, collection="strava.laps")
    await items.claim("strava.laps", "connection_1", limit=1, lease=LEASE, worker="w")
    clock.advance(61)

    assert await rescue_items(items, {STREAMS: strict}) == 2

    assert (await items.get(item.id)).stuck
    assert (await items.get(unknown)).state is ItemState.PENDING


async def test_an_item_may_fail_more_often_than_most_and_is_claimed_again(
    items: SqlItems, clock: ManualClock
) -> None:
    item = await claim_one(items)
    for failures in range(1, 12):
        after = await settled(items, change.fail(item, error="x", after=MINUTE))
        assert (after.retry_count, after.stuck) == (failures, False)
        clock.advance(60)
        [item] = await claim(items)


# ---- what a row may say ------------------------------------------------------------------------


async def test_the_database_refuses_what_no_change_leads_to(database: Database) -> None:
    for fields in (
        {"state": "lost"},
        {"lane": "lukewarm"},
        {"lease_until": START},
        {"state": "fetching", "next_attempt_at": None},
        {"state": "deferred"},
        {"deferred_until": START},
        {"external_id": None},
        {"next_attempt_at": None},
        {"state": "success"},
        {"state": "unavailable"},
    ):
        # Given a row that is right
        items = SqlItems(database)
        [item_id] = await registered(items, 1)
        right = asdict(await items.get(item_id))

        # When another is written with one thing wrong
        wrong = {**right, "id": "wrong", "external_id": "wrong", **fields}
        with pytest.raises(StoreError, match="ck_headgate_items"):
            await stores.execute(items.database, insert(items_table).values(wrong))

        # Then it is not there
        with pytest.raises(NotFound):
            await items.get("wrong")
