"""Records and coverage: stored once by key, rewritten when changed, counted as they were."""

from datetime import date, timedelta

import msgspec
import pytest

from headgate.base.clock import ManualClock
from headgate.base.encoding import JsonObject, content_hash
from headgate.model import change
from headgate.model.job import Job
from headgate.model.record import Coverage, CoverageRow, Record
from headgate.model.states import DayStatus
from headgate.ports.jobs.store import ChunkWork
from tests.conformance.chunks import bring, counts, held
from tests.store_bundles import Stores
from tests.stores import START, claim_one, everything, is_sql, new_job, run_one, submit_all, tally

DAY = date(2025, 12, 31)


def numbered(count: int) -> list[Record]:
    return [Record(f"record_{number:05d}", {"number": number}) for number in range(count)]


# ---- records -----------------------------------------------------------------------------------


async def test_records_are_counted_by_what_became_of_them(
    store: Stores, clock: ManualClock
) -> None:
    # Given three records
    job = await run_one(store)
    job = await bring(store, job, *(Record(key, {"is": "old"}) for key in "abc"))
    assert counts(job) == (3, 0, 0)

    # When one comes again as it was, one changed, and one is new
    clock.advance(10)
    again = [Record("a", {"is": "old"}), Record("b", {"is": "new"}), Record("d", {"is": "new"})]
    job = await bring(store, job, *again)

    # Then each is counted so, and the rows hold the newest of each
    assert counts(job) == (1, 1, 1)
    assert job == await store.jobs.get(job.id)
    assert await held(store, job) == [
        Record("a", {"is": "old"}),
        Record("b", {"is": "new"}),
        Record("c", {"is": "old"}),
        Record("d", {"is": "new"}),
    ]


async def test_counts_add_up_over_the_chunks_of_a_job(store: Stores) -> None:
    # Given a job that has stored a chunk
    job = await run_one(store)
    job = await bring(store, job, Record("a", {}))

    # When the next chunk carries the summary on, as the engine does
    wanted = change.advance(job, tally(inserted=job.summary.inserted), {})
    after = await store.jobs.settle(wanted, ChunkWork(records=[Record("b", {})]))

    # Then the counts of both are there
    assert after is not None
    assert counts(after) == (2, 0, 0)


async def test_an_unchanged_record_is_not_rewritten_and_a_changed_one_keeps_when_it_was_first_seen(
    store: Stores, clock: ManualClock
) -> None:
    # Given a record
    job = await run_one(store)
    job = await bring(store, job, Record("a", {"x": 1, "y": 2}))
    before = (await everything(store))["records"]

    # When it comes again later, with its fields in another order, then its row is as it was
    clock.advance(10)
    job = await bring(store, job, Record("a", {"y": 2, "x": 1}))
    assert (await everything(store))["records"] == before

    # And when it has changed, then only the time of the change is another
    clock.advance(10)
    await bring(store, job, Record("a", {"x": 2}))
    rows = await everything(store)
    [(*_, created_at, updated_at)] = rows["records"]
    assert (created_at, updated_at) == (START, START + timedelta(seconds=20))
    # And a chunk without coverage notes no day
    assert rows["coverage"] == []


async def test_of_a_key_that_comes_twice_in_a_chunk_the_later_counts(store: Stores) -> None:
    job = await run_one(store)

    twice = [Record("a", {"is": "first"}), Record("b", {}), Record("a", {"is": "last"})]
    job = await bring(store, job, *twice)

    assert counts(job) == (2, 0, 0)
    assert await held(store, job) == [Record("a", {"is": "last"}), Record("b", {})]


async def test_a_chunk_of_many_records_is_stored_whole(store: Stores) -> None:
    # Given more records than one statement takes
    job = await run_one(store)
    many = numbered(2500 if is_sql(store) else 250)

    # When they come in one chunk, and then again with one changed at either end
    first = await bring(store, job, *many)
    changed = [Record(many[0].key, {}), *many[1:-1], Record(many[-1].key, {})]
    second = await bring(store, first, *changed)

    # Then all are there, and counted
    assert counts(first) == (len(many), 0, 0)
    assert counts(second) == (0, 2, len(many) - 2)
    assert await held(store, job) == changed


async def test_hashes_tell_what_is_stored_and_how(store: Stores) -> None:
    # Given two records, one of which has changed since
    job = await run_one(store)
    old = [Record("a", {"x": 1, "y": [2.5]}), Record("b", {"is": "old"})]
    job = await bring(store, job, *old)
    await bring(store, job, Record("b", {"is": "new"}))

    # When they are asked for, one of them twice, with one that is not there
    told = await store.records.record_hashes(job.sync, job.connection_id, ["b", "c", "a", "b"])

    # Then each that is there has the hash that anybody can make of it
    assert told == {"a": content_hash({"y": [2.5], "x": 1}), "b": content_hash({"is": "new"})}
    assert await store.records.record_hashes(job.sync, job.connection_id, []) == {}


async def test_records_that_are_gone_are_deleted_with_the_chunk(store: Stores) -> None:
    # Given more records of a connection than one statement names, and one of another connection
    job = await run_one(store)
    many = numbered(2500 if is_sql(store) else 250)
    job = await bring(store, job, *many)
    other = await run_one(store, connection_id="another")
    await bring(store, other, *many[:1])

    # When a chunk tells that all but the last are gone, and stores one of them again
    again = Record("record_00007", {"number": -7})
    job = await bring(store, job, again, removed=[record.key for record in many[:-1]])

    # Then these two are left, and the other connection has its own
    assert await held(store, job) == [again, many[-1]]
    wanted = [record.key for record in many]
    assert await store.records.record_data(job.sync, job.connection_id, wanted) == {
        again.key: again.data,
        many[-1].key: many[-1].data,
    }
    assert await held(store, other) == many[:1]
    assert counts(job) == (0, 1, 0)


@pytest.mark.parametrize(
    "count", [999, 1000, 1001, pytest.param(10_000, marks=pytest.mark.thorough)]
)
async def test_hashes_are_told_of_any_number_of_records(store: Stores, count: int) -> None:
    # Given so many records
    job = await run_one(store)
    many = numbered(count)
    await bring(store, job, *many)

    # When all are asked for, and as many that are not there
    wanted = [key for record in many for key in (record.key, f"{record.key}?")]
    told = await store.records.record_hashes(job.sync, job.connection_id, wanted)

    # Then those that are there are told
    assert told == {record.key: content_hash(record.data) for record in many}


async def test_records_of_another_connection_are_others(store: Stores) -> None:
    # Given a record of one connection
    first = await run_one(store, connection_id="c1")
    await bring(store, first, Record("a", {"of": 1}))

    # When the same key comes for another connection, and for another sync
    second = await run_one(store, connection_id="c2")
    third = await run_one(store, connection_id="c1", sync="other")
    second = await bring(store, second, Record("a", {"of": 2}))
    third = await bring(store, third, Record("a", {"of": 3}))

    # Then each is new, and each is kept
    assert counts(second) == counts(third) == (1, 0, 0)
    for job, number in ((first, 1), (second, 2), (third, 3)):
        assert await held(store, job) == [Record("a", {"of": number})]
        told = await store.records.record_hashes(job.sync, job.connection_id, ["a"])
        assert told == {"a": content_hash({"of": number})}
    assert await store.records.record_hashes("other", "c2", ["a"]) == {}


async def test_a_record_reads_back_as_it_was_given(store: Stores) -> None:
    data: JsonObject = {
        "text": "ü \U0001f600 \u2028 'quoted' \"twice\" \\ % :name",
        "numbers": [0, -1, 2**53, 1.5, 1e-9],
        "none": None,
        "truth": [True, False],
        "deep": {"er": [{}, []]},
        "": "empty",
    }
    job = await run_one(store)

    await bring(store, job, Record("key with 'quotes', % and ü", data))

    assert await held(store, job) == [Record("key with 'quotes', % and ü", data)]


async def test_records_are_paged_in_the_order_of_their_keys(store: Stores) -> None:
    job = await run_one(store)
    await bring(store, job, *(Record(key, {}) for key in "dbeac"))

    first = await store.records.list_records(job.sync, job.connection_id, limit=2)
    rest = await store.records.list_records(
        job.sync, job.connection_id, after=first[-1].key, limit=10
    )

    assert [record.key for record in first] == ["a", "b"]
    assert [record.key for record in rest] == ["c", "d", "e"]


# ---- coverage ----------------------------------------------------------------------------------


async def cover(store: Stores, job: Job, *days: Coverage) -> Job:
    for day in days:
        job = await bring(store, job, coverage=day)
    return job


CLAIMED = Coverage(day=DAY, status=DayStatus.HELD, records=3)
EMPTY = Coverage(day=DAY, status=DayStatus.EMPTY)
FAILED = Coverage(day=DAY, status=DayStatus.FAILED, error="bad day")


async def day_of(store: Stores, job: Job) -> CoverageRow:
    [row] = await store.coverage.list_days(job.sync, job.connection_id, DAY, DAY)
    return row


async def test_a_day_reads_back_as_it_was_noted(store: Stores) -> None:
    for known in (CLAIMED, EMPTY, FAILED):
        job = await run_one(store)

        await cover(store, job, known)

        assert await day_of(store, job) == CoverageRow(
            day=DAY,
            status=known.status,
            records=known.records,
            error=known.error,
            sync=job.sync,
            connection_id=job.connection_id,
            job_id=job.id,
            updated_at=START,
        )


async def test_a_day_read_again_is_noted_anew(store: Stores, clock: ManualClock) -> None:
    for before, after in (
        (FAILED, CLAIMED),
        (FAILED, EMPTY),
        (EMPTY, CLAIMED),
        (EMPTY, FAILED),
        (CLAIMED, EMPTY),
        (CLAIMED, Coverage(day=DAY, status=DayStatus.HELD, records=9)),
    ):
        job = await cover(store, await run_one(store), before)

        clock.advance(10)
        await cover(store, job, after)

        row = await day_of(store, job)
        assert (row.status, row.records, row.error) == (after.status, after.records, after.error)
        assert row.updated_at == clock.now()


async def test_a_day_once_held_is_not_unmade_by_a_failed_read(
    store: Stores, clock: ManualClock
) -> None:
    # Given a day that is held
    job = await cover(store, await run_one(store), CLAIMED)
    before = await day_of(store, job)

    # When reading it again fails
    clock.advance(10)
    await cover(store, job, FAILED)

    # Then it is still held, as it was
    assert await day_of(store, job) == before


async def test_coverage_is_told_for_the_days_asked_in_order(store: Stores) -> None:
    # Given five days, noted newest first, one of them by another connection
    job = await run_one(store)
    days = [date(2025, 3, number) for number in (5, 4, 3, 2, 1)]
    await cover(store, job, *(Coverage(day=day, status=DayStatus.EMPTY) for day in days))
    await cover(store, await run_one(store), CLAIMED)

    # When a range is asked for
    rows = await store.coverage.list_days(
        job.sync, job.connection_id, date(2025, 3, 2), date(2025, 3, 4)
    )

    # Then its days are there, both ends included, in order
    assert [row.day for row in rows] == [date(2025, 3, 2), date(2025, 3, 3), date(2025, 3, 4)]


async def test_records_are_found_and_forgotten_by_their_keys(store: Stores) -> None:
    job = await run_one(store)
    await bring(store, job, Record("a", {"n": 1}), Record("b", {"n": 2}))

    [found] = await store.records.find_by_keys([job.sync, "other"], [job.connection_id], ["b", "c"])
    assert (found.key, found.data, found.connection_id) == ("b", {"n": 2}, job.connection_id)

    assert await store.records.forget_records([job.sync], "another", ["a", "b"]) == 0
    assert await store.records.forget_records([job.sync], job.connection_id, ["a", "c"]) == 1
    assert await held(store, job) == [Record("b", {"n": 2})]


async def test_days_that_went_to_another_account_are_not_brought(store: Stores) -> None:
    # Given a day that was read for a destination's account
    day = date(2026, 1, 2)
    wanted = msgspec.structs.replace(
        new_job(), start_date=day, end_date=day, destination_connection_id="first"
    )
    [job] = await submit_all(store, [wanted])
    running = await claim_one(store, job.lane)
    work = ChunkWork(coverage=Coverage(day=day, status=DayStatus.HELD, records=1))
    await store.jobs.settle(change.advance(running, tally(), {}), work)

    # Then it is known to a job for the same account, and to no other
    others = [
        msgspec.structs.replace(wanted, destination_connection_id=other)
        for other in ("second", None)
    ]
    covered = await store.coverage.covered_days([others[0], wanted, others[1], wanted])
    assert [[row.day for row in rows] for rows in covered] == [[], [day], [], [day]]
    assert [rows[0].updated_at for rows in covered if rows] == [START, START]
