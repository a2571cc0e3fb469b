"""Pages of records: whose they are, in one order, with every filter, to the very end."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from headgate.base.clock import ManualClock
from headgate.model import change
from headgate.model.record import Record, RecordRow
from headgate.ports.jobs.store import ChunkWork
from headgate.ports.records.store import RecordFilter, RecordPosition
from headgate.store.dynamodb.records import store as records
from headgate.store.sql.records import pages as record_pages
from tests.store_bundles import Stores
from tests.stores import START, run_one, tally

SYNC = "notes"


async def put(
    store: Stores,
    connection_id: str,
    *keys: str,
    user_id: str = "ada",
    stored_as: str | None = None,
) -> None:
    """Let a job store records under these keys."""
    job = await run_one(store, connection_id=connection_id, user_id=user_id)
    work = ChunkWork(stored_as=stored_as, records=[Record(key, {"of": user_id}) for key in keys])
    assert await store.jobs.settle(change.succeed(job, tally(), {}), work) is not None


async def walk(
    store: Stores, which: RecordFilter, *, limit: int = 2
) -> tuple[list[tuple[str, str]], int]:
    """Every record page by page, as connection and key, and how many pages there were."""
    seen: list[tuple[str, str]] = []
    after: RecordPosition | None = None
    for pages in range(1, 100):
        found = await store.records.find_records(which, after=after, limit=limit)
        assert len(found.rows) <= limit
        seen += places(found.rows)
        after = found.after
        if after is None:
            return seen, pages
    raise AssertionError("the pages do not end")


def places(rows: Sequence[RecordRow]) -> list[tuple[str, str]]:
    return [(row.connection_id, row.key) for row in rows]


async def test_records_are_listed_in_the_order_of_connections_and_keys(store: Stores) -> None:
    await put(store, "c2", "b", "a")
    await put(store, "c1", "z", "y", "x")
    await put(store, "c3", "k", user_id="bob")
    every = [("c1", "x"), ("c1", "y"), ("c1", "z"), ("c2", "a"), ("c2", "b"), ("c3", "k")]

    for limit, pages in ((1, 6), (2, 3), (4, 2), (6, 1), (100, 1)):
        assert await walk(store, RecordFilter(sync=SYNC), limit=limit) == (every, pages)
    for limit, pages in ((1, 5), (2, 3), (5, 1), (100, 1)):
        mine = RecordFilter(sync=SYNC, user_id="ada")
        assert await walk(store, mine, limit=limit) == (every[:5], pages)
    one = RecordFilter(sync=SYNC, connection_id="c1")
    assert await walk(store, one, limit=2) == (every[:3], 2)
    assert await walk(store, RecordFilter(sync="others")) == ([], 1)


async def test_a_record_is_told_with_whose_it_is_and_its_times(
    store: Stores, clock: ManualClock
) -> None:
    await put(store, "c1", "a")
    [row] = (await store.records.find_records(RecordFilter(sync=SYNC), limit=2)).rows
    assert row == RecordRow(
        sync=SYNC,
        connection_id="c1",
        key="a",
        data={"of": "ada"},
        user_id="ada",
        created_at=START,
        updated_at=START,
    )


@pytest.mark.security(2)
async def test_nobody_sees_the_records_of_another(store: Stores) -> None:
    await put(store, "c1", "a")
    await put(store, "c2", "a", user_id="bob")

    assert (await walk(store, RecordFilter(sync=SYNC, user_id="bob")))[0] == [("c2", "a")]
    assert await walk(store, RecordFilter(sync=SYNC, user_id="eve")) == ([], 1)
    foreign = RecordFilter(sync=SYNC, user_id="bob", connection_id="c1")
    assert await walk(store, foreign) == ([], 1)
    # Nor by a position that points into them.
    begin = RecordPosition("c1", None)
    found = await store.records.find_records(
        RecordFilter(sync=SYNC, user_id="bob"), after=begin, limit=10
    )
    assert places(found.rows) == [("c2", "a")]
    assert await store.records.list_under_key(foreign, "a", limit=10) == []


async def test_records_are_found_under_the_name_that_they_are_stored_under(store: Stores) -> None:
    await put(store, "c1", "a", stored_as="history")

    assert (await walk(store, RecordFilter(sync="history", user_id="ada")))[0] == [("c1", "a")]
    assert (await walk(store, RecordFilter(sync=SYNC)))[0] == []


@pytest.mark.parametrize("user_id", [None, "ada"])
async def test_filters_are_exact_at_their_edges(
    store: Stores, clock: ManualClock, user_id: str | None
) -> None:
    for key in ("2026-01", "2026-02", "2027_1", "2027%1"):
        await put(store, "c1", key)
        clock.advance(60)

    async def keys(**narrow: Any) -> list[str]:
        which = RecordFilter(sync=SYNC, user_id=user_id, **narrow)
        return sorted(key for _, key in (await walk(store, which, limit=1))[0])

    minute = timedelta(minutes=1)
    assert await keys(since=START + minute) == ["2026-02", "2027%1", "2027_1"]
    assert await keys(until=START + minute) == ["2026-01"]
    assert await keys(since=START + minute, until=START + 2 * minute) == ["2026-02"]
    assert await keys(key_prefix="2026-") == ["2026-01", "2026-02"]
    # What SQL reads as a pattern is a text here.
    assert await keys(key_prefix="2027_") == ["2027_1"]
    assert await keys(key_prefix="%") == []


async def test_a_page_looks_at_a_bounded_number_of_rows_and_goes_on_after_them(
    store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given few records that match among many that do not
    for module in (record_pages, records):
        monkeypatch.setattr(module, "SCAN_MAX", 4)
    await put(store, "c1", *(f"k{number:02}" for number in range(20)), "z1")
    await put(store, "c2", "z2", "z3")
    every = [("c1", "z1"), ("c2", "z2"), ("c2", "z3")]

    for user_id in (None, "ada"):
        narrow = RecordFilter(sync=SYNC, user_id=user_id, key_prefix="z")
        # Then a page may be empty, and the next one goes on where it ended
        first = await store.records.find_records(narrow, limit=10)
        assert (places(first.rows), first.after) == ([], RecordPosition("c1", "k03"))
        seen, pages = await walk(store, narrow, limit=10)
        assert seen == every and pages == 6
        assert (await walk(store, narrow, limit=1))[0] == every


async def test_a_page_reads_a_bounded_number_of_connections(
    store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (record_pages, records):
        monkeypatch.setattr(module, "CONNECTIONS_MAX", 2)
    for number in range(5):
        await put(store, f"c{number}", "a")

    seen, pages = await walk(store, RecordFilter(sync=SYNC, user_id="ada"), limit=10)

    assert seen == [(f"c{number}", "a") for number in range(5)] and pages == 3


async def test_pages_stay_in_step_when_records_come_and_go_meanwhile(store: Stores) -> None:
    await put(store, "c1", "b", "d", "f")
    first = await store.records.find_records(RecordFilter(sync=SYNC), limit=2)

    # When the last record of a page is deleted, and others come before and after it
    await store.records.forget_records([SYNC], "c1", ["d"])
    await put(store, "c1", "a", "e")
    rest = await store.records.find_records(RecordFilter(sync=SYNC), after=first.after, limit=10)

    # Then nothing comes twice, and nothing after it is left out
    assert places(rest.rows) == [("c1", "e"), ("c1", "f")]


async def test_a_record_is_found_by_its_key_in_every_connection_that_has_it(store: Stores) -> None:
    await put(store, "c2", "a", "b")
    await put(store, "c1", "a")
    await put(store, "c3", "a", user_id="bob")

    async def found(key: str, **more: Any) -> list[str]:
        rows = await store.records.list_under_key(RecordFilter(sync=SYNC, **more), key, limit=10)
        return [row.connection_id for row in rows]

    assert await found("a") == ["c1", "c2", "c3"]
    assert await found("a", user_id="ada") == ["c1", "c2"]
    assert await found("b", user_id="ada") == ["c2"]
    assert await found("a", user_id="ada", connection_id="c2") == ["c2"]
    assert await found("a", user_id="ada", connection_id="c3") == []
    assert await found("z") == []
    assert len(await store.records.list_under_key(RecordFilter(sync=SYNC), "a", limit=1)) == 1
