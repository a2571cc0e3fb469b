"""What only the store on DynamoDB has to prove: large chunks, lost answers, indexes behind."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from headgate.base.clock import ManualClock
from headgate.base.errors import Malformed, StoreError, StoreUnavailable
from headgate.flow.leases.settle import settle_surely
from headgate.model import change
from headgate.model.job import Job, Lane, Reason
from headgate.model.lease import Claim
from headgate.model.record import ChunkEvent, Record
from headgate.model.states import JobState, ReceiptState
from headgate.model.worker import Abilities
from headgate.ports.jobs.store import ChunkWork, JobFilter, RowAttribute
from headgate.ports.records.store import RecordFilter
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.attributes import ITEM_BYTES_MAX, from_attributes, item_size
from headgate.store.dynamodb.engine.client import TRIES_MAX
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.dynamodb.records import store as records
from tests import dynamo
from tests.conformance.chunks import bring, counts, held
from tests.conformance.databases import shared_fixture
from tests.dynamo_faults import Fault, FaultyClient, after, first
from tests.store_bundles import DynamoStores
from tests.stores import (
    LEASE,
    SYNCS,
    claim_one,
    everything,
    kinds,
    run_one,
    settled,
    shut_one,
    submit_one,
    tally,
)

MINUTE = timedelta(minutes=1)


@pytest.fixture
def store(dynamo_table: DynamoTable) -> DynamoStores:
    """An empty store on each emulator in turn."""
    return DynamoStores(dynamo_table, SYNCS)


@shared_fixture()
async def client(dynamo_table: DynamoTable) -> AsyncIterator[FaultyClient]:
    """The client of the store, which can fail on purpose."""
    yield dynamo.client_of(dynamo_table)


@shared_fixture()
async def elsewhere(client: FaultyClient, clock: ManualClock) -> AsyncIterator[DynamoStores]:
    """The same store, in another process."""
    table = dynamo.table_on(client.address.endpoint or "", client.address.table, clock)
    await table.open()
    try:
        yield DynamoStores(table, SYNCS)
    finally:
        await table.close()


def many(count: int, **data: Any) -> list[Record]:
    return [Record(f"record_{n:04d}", {"n": n, **data}) for n in range(count)]


async def bring_late(store: DynamoStores, job: Job, *records: Record) -> None:
    """Settle a chunk after the claim was lost."""
    work = ChunkWork(records=records)
    assert await store.jobs.settle(change.advance(job, tally(), {}), work) is None


async def rescue(store: DynamoStores, clock: ManualClock, job: Job) -> None:
    """Take a job from its worker, whose lease is over."""
    clock.advance(61)
    await settled(store, change.rescue(job, after=timedelta(0)))


#: Lets something happen right after the next answer to such a request.
Meanwhile = Callable[[str, Callable[[], Awaitable[object]]], None]


@pytest.fixture
def meanwhile(client: FaultyClient) -> Meanwhile:
    def meanwhile(operation: str, act: Callable[[], Awaitable[object]]) -> None:
        async def go() -> None:
            await act()

        client.after_first(operation, go)

    return meanwhile


# ---- the item that others read -----------------------------------------------------------------


async def test_others_read_further_attributes_of_a_job_whatever_becomes_of_it(
    dynamo_table: DynamoTable, clock: ManualClock
) -> None:
    # Given an application whose system makes attributes of the fields of a job
    made = (
        RowAttribute("status", "state", str.upper),
        RowAttribute("why", "reason"),
        RowAttribute("failures", "recent_errors", len),
        RowAttribute("lastAttempt", "attempted_at"),
    )
    store = DynamoStores(dynamo_table, SYNCS, made)

    async def read(job: Job) -> list[Any]:
        item = await store.table.get(keys.job(job.id))
        assert item is not None
        return [item.get(each.name) for each in made]

    # When a job is submitted, claimed, paused by the breaker and set free, then they follow it
    submitted = await submit_one(store)
    assert await read(submitted) == ["PENDING", "queued", 0, None]
    running = await claim_one(store)
    at = keys.time_text(clock.now())
    assert await read(running) == ["RUNNING", "working", 0, at]
    errors = (clock.now(),) * 6
    opened = change.open_breaker(running, cooldown=MINUTE, error="down", recent_errors=errors)
    await settled(store, opened)
    assert await read(running) == ["PAUSED", "breaker", 6, at]
    await store.breakers.release_provider(running.provider, stagger=MINUTE, limit=1)
    assert await read(running) == ["PAUSED", "recovering", 6, at]


# ---- the retention of jobs ---------------------------------------------------------------------


async def test_a_job_is_pruned_with_all_of_its_events_and_a_look_at_the_newest_jobs(
    store: DynamoStores, client: FaultyClient, clock: ManualClock
) -> None:
    # Given an old job with more events than one page has, and many later ones
    old = await run_one(store, user_id="ada", connection_id="c1")
    told = [
        {"pk": keys.job(old.id)[0], "sk": keys.event_sk(number), "told": ["x" * 100_000]}
        for number in range(100, 118)
    ]
    await dynamo.fill(store.table, told)
    await settled(store, change.succeed(old, tally(), {}))
    for _ in range(60):
        clock.advance(1)
        later = await run_one(store, user_id="ada", connection_id="c1")
        await settled(store, change.succeed(later, tally(), {}))
    clock.advance(8 * 86_400)
    client.requests.clear()

    # When it is pruned
    assert (await store.jobs.prune_jobs(older_than=timedelta(days=7), limit=1)).count == 1

    # Then nothing of it is left, and only the newest of the others were read
    assert not [pk for pk, _ in await dynamo.scan(store.table) if old.id in pk]
    reads = [
        len(of_table["Keys"])
        for name, request in client.requests
        if name == "batch_get_item"
        for of_table in request["RequestItems"].values()
    ]
    assert sum(reads) < 55


async def test_a_job_that_is_retried_while_it_is_pruned_stays(
    store: DynamoStores, elsewhere: DynamoStores, meanwhile: Meanwhile, clock: ManualClock
) -> None:
    jobs: list[Job] = []
    for _ in range(2):
        running = await run_one(store, user_id="ada", connection_id="c1")
        refused = change.fail(running, reason=Reason.REFUSED, error="refused")
        jobs.append(await settled(store, refused))
        clock.advance(1)
    failed, later = jobs
    clock.advance(8 * 86_400)
    meanwhile(
        "batch_write_item", lambda: settled(elsewhere, change.start_again(failed, Reason.RETRY_NOW))
    )

    assert (await store.jobs.prune_jobs(older_than=timedelta(days=7), limit=10)).count == 0
    assert (await store.jobs.get(failed.id)).state is JobState.PENDING
    assert (await store.jobs.get(later.id)).state is JobState.FAILED


async def test_a_worker_that_comes_back_while_others_are_pruned_stays(
    store: DynamoStores, elsewhere: DynamoStores, meanwhile: Meanwhile, clock: ManualClock
) -> None:
    able = Abilities(syncs=("any",))
    await store.workers.refresh_worker("w", able, term=MINUTE)
    clock.advance(61)
    meanwhile("query", lambda: elsewhere.workers.refresh_worker("w", able, term=MINUTE))

    assert await store.workers.prune_workers() == 0
    assert [worker.id for worker in await store.workers.live_workers()] == ["w"]


# ---- a chunk that is too large for one transaction ---------------------------------------------


@pytest.mark.fault(1)
async def test_a_worker_killed_between_the_parts_of_a_chunk_repeats_and_doubles_nothing(
    store: DynamoStores, client: FaultyClient, clock: ManualClock
) -> None:
    # Given a chunk of several parts, whose worker is killed after the first
    job = await bring(store, await run_one(store))
    records = many(120)
    client.choose = after(1, Fault.UNREACHABLE, of="transact_write_items")
    with pytest.raises(StoreUnavailable):
        await bring(store, job, *records)
    client.choose = None
    assert len(await held(store, job)) == 99
    assert (await store.jobs.get(job.id)).steps == 1

    # When the job is rescued, and another worker reads the chunk again
    clock.advance(61)
    await settled(store, change.rescue(job, after=timedelta(0)))
    done = await bring(store, await claim_one(store, worker="worker_2"), *records)

    # Then every record is there once, and counted once, as what it was
    assert counts(done) == (120, 0, 0)
    assert await held(store, job) == records
    assert await kinds(store, job.id) == ["submitted", "chunk", "rescued", "chunk"]


async def test_the_repeated_chunk_may_bring_other_contents(
    store: DynamoStores, client: FaultyClient
) -> None:
    # Given records that were stored, and a larger chunk that changes them and is cut off
    job = await bring(store, await run_one(store))
    stored = await bring(store, job, *many(20))
    client.choose = after(1, Fault.UNREACHABLE, of="transact_write_items")
    with pytest.raises(StoreUnavailable):
        await bring(store, stored, *many(120, v=1))
    client.choose = None

    # When the chunk comes again, with what the provider says by now
    done = await bring(store, stored, *many(120, v=2))

    # Then the twenty count as changed and the others as new
    assert counts(done) == (100, 20, 0)
    assert {record.data["v"] for record in await held(store, job)} == {2}


@pytest.mark.fault(4)
async def test_a_lost_worker_writes_no_part_of_a_large_chunk(
    store: DynamoStores, clock: ManualClock
) -> None:
    zombie = await run_one(store)
    clock.advance(61)
    await settled(store, change.rescue(zombie, after=timedelta(0)))
    before = await everything(store)

    await bring_late(store, zombie, *many(120))
    assert await everything(store) == before


@pytest.mark.fault(4)
async def test_a_worker_that_loses_its_claim_between_the_parts_writes_no_further_part(
    store: DynamoStores, elsewhere: DynamoStores, meanwhile: Meanwhile, clock: ManualClock
) -> None:
    # Given a job that is rescued right after the first part of its chunk was written
    job = await run_one(store)
    meanwhile("transact_write_items", lambda: rescue(elsewhere, clock, job))

    # When the chunk is settled, then the claim is lost, and the second part was never written
    await bring_late(store, job, *many(120))
    assert len(await held(store, job)) == 99
    assert (await store.jobs.get(job.id)).steps == 0


async def test_a_chunk_of_more_bytes_than_a_transaction_is_stored_whole(
    store: DynamoStores,
) -> None:
    done = await bring(store, await run_one(store), *many(20, text="x" * 300_000))

    assert counts(done) == (20, 0, 0)
    assert len(await held(store, done)) == 20


async def test_what_no_item_holds_is_named_and_nothing_of_it_is_written(
    store: DynamoStores,
) -> None:
    job = await run_one(store)
    before = await everything(store)
    large, long = Record("large", {"text": "x" * ITEM_BYTES_MAX}), Record("k" * 1024, {})

    for record, said in ((large, "'large'"), (long, "'kkkk")):
        with pytest.raises(Malformed, match=said):
            await bring(store, job, Record("small", {}), record)
    with pytest.raises(Malformed, match="'kkkk"):
        await store.receipts.claim_records(job, job.sync, ["small", long.key])
    with pytest.raises(StoreError, match=f"job#{job.id}.*409,600"):
        await store.jobs.settle(change.advance(job, tally(cursor="x" * ITEM_BYTES_MAX), {}))

    assert await everything(store) == before


async def test_a_chunk_leaves_room_in_the_row_for_what_comes_after_it(store: DynamoStores) -> None:
    """Else DynamoDB would refuse the next claim, or that the job fails."""
    job = await run_one(store)

    with pytest.raises(StoreError, match=f"job#{job.id}"):
        near = tally(cursor="x" * (ITEM_BYTES_MAX - 6000))
        await store.jobs.settle(change.advance(job, near, {}), ChunkWork())

    large = tally(cursor="x" * (ITEM_BYTES_MAX - 12_000))
    await store.jobs.settle(change.rest(job, large, {}), ChunkWork())
    again = await claim_one(store)
    await settled(store, change.fail(again, reason=Reason.REFUSED, error="e" * 4000))


# Moto allows 405,000 bytes.
@pytest.mark.parametrize("new_table", ["ministack"], indirect=True)
@pytest.mark.parametrize("before", [None, {}], ids=["new", "changed"])
async def test_a_record_is_measured_as_it_is_stored(
    store: DynamoStores, client: FaultyClient, before: dict[str, Any] | None
) -> None:
    # Given the longest text that a record may have
    job = await run_one(store)
    if before is not None:
        job = await bring(store, job, Record("r", before))

    async def bring_text(length: int) -> Job:
        return await bring(store, job, Record("r", {"text": "x" * length}))

    least, most = ITEM_BYTES_MAX - 1000, ITEM_BYTES_MAX
    client.choose = after(0, Fault.UNREACHABLE, of="transact_write_items")
    while most - least > 1:
        length = (least + most) // 2
        try:
            await bring_text(length)
        except Malformed:
            most = length
        except StoreUnavailable:
            least = length
    client.choose = None
    await bring_text(least)

    # Then its item has as many bytes as DynamoDB allows, and no more
    [item] = [
        from_attributes(each)
        for (pk, _), each in (await dynamo.scan(store.table)).items()
        if pk.startswith("record#")
    ]
    assert ITEM_BYTES_MAX - 100 <= item_size(item) <= ITEM_BYTES_MAX


# Of the second, all characters together are fewer than an item has bytes, and their bytes are more.
@pytest.mark.parametrize(
    ("count", "text"), [(100, "x" * 8000), (60, "量" * 2600)], ids=["ASCII", "three bytes each"]
)
async def test_the_events_of_a_chunk_fit_into_its_transaction(
    store: DynamoStores, count: int, text: str
) -> None:
    job = await run_one(store)
    told = [ChunkEvent("page", {"n": n, "text": text}) for n in range(count)]

    await bring(store, job, events=told)

    events = await store.events.list_events(job.id, after=0, limit=1000)
    assert [event.id for event in events] == list(range(1, count + 3))
    assert [event.data["n"] for event in events[1:-1]] == list(range(count))
    page = await store.events.list_events(job.id, after=37, limit=5)
    assert [event.id for event in page] == [38, 39, 40, 41, 42]


async def test_old_events_of_many_jobs_are_pruned_at_the_same_time_and_no_more_than_asked(
    store: DynamoStores, client: FaultyClient, clock: ManualClock
) -> None:
    # Given twenty jobs of two old events each
    jobs = [await run_one(store) for _ in range(20)]
    for job in jobs:
        await settled(store, change.advance(job, tally(), {}))
    clock.advance(3600)
    client.requests.clear()

    assert await store.events.prune_events(older_than=MINUTE, limit=15) == 15

    # All that are under way are asked for before the first of them is done.
    operations = [operation for operation, request in client.requests if "IndexName" not in request]
    assert operations[:10] == ["get_item"] * 10
    left = [await store.events.list_events(job.id, after=0, limit=10) for job in jobs]
    assert sum(map(len, left)) == 25
    assert await store.events.prune_events(older_than=MINUTE, limit=100) == 25


# ---- what happens between the look at a row and the write --------------------------------------


@pytest.mark.fault(4)
async def test_a_change_that_was_decided_before_a_rescue_is_not_written_after_it(
    store: DynamoStores, elsewhere: DynamoStores, meanwhile: Meanwhile, clock: ManualClock
) -> None:
    job = await run_one(store)
    meanwhile("get_item", lambda: rescue(elsewhere, clock, job))

    await bring_late(store, job, *many(3))
    assert await held(store, job) == []
    assert await kinds(store, job.id) == ["submitted", "rescued"]


@pytest.mark.fault(5)
async def test_a_heartbeat_in_between_is_not_undone(
    store: DynamoStores, elsewhere: DynamoStores, meanwhile: Meanwhile, clock: ManualClock
) -> None:
    job = await run_one(store)

    clock.advance(30)
    meanwhile("get_item", lambda: elsewhere.jobs.extend([Claim(job.id, job.token)], lease=LEASE))
    done = await settled(store, change.advance(job, tally(), {}))

    assert done.lease_until == clock.now() + LEASE
    assert done == await store.jobs.get(job.id)
    clock.advance(59)
    assert list(await store.jobs.list_expired(limit=9)) == []


async def test_a_job_that_goes_on_in_between_is_not_released_with_the_others(
    store: DynamoStores, elsewhere: DynamoStores, meanwhile: Meanwhile
) -> None:
    # Given two jobs that wait for their provider, of which somebody resumes one meanwhile
    first_job, other = [await shut_one(store, connection_id=f"c{n}") for n in range(2)]
    meanwhile(
        "batch_get_item", lambda: settled(elsewhere, change.start_again(first_job, Reason.RESUMED))
    )

    # When the provider's jobs are released
    released = await store.breakers.release_provider(other.provider, stagger=MINUTE, limit=10)

    # Then only the other was
    assert released == 1
    jobs = [await store.jobs.get(each.id) for each in (first_job, other)]
    assert [job.reason for job in jobs] == [Reason.RESUMED, Reason.RECOVERING]


@pytest.mark.fault(4)
async def test_a_worker_that_is_lost_while_it_claims_records_claims_none(
    store: DynamoStores, elsewhere: DynamoStores, meanwhile: Meanwhile, clock: ManualClock
) -> None:
    job = await run_one(store)
    meanwhile("batch_get_item", lambda: rescue(elsewhere, clock, job))

    claimed = await store.receipts.claim_records(job, job.sync, ["a", "b"])

    assert claimed == dict.fromkeys("ab", ReceiptState.CLAIMED)
    assert not [pk for pk, _ in await dynamo.scan(store.table) if pk.startswith("receipt#")]


async def test_an_event_that_comes_while_older_ones_are_pruned_is_pruned_in_its_turn(
    store: DynamoStores, elsewhere: DynamoStores, meanwhile: Meanwhile, clock: ManualClock
) -> None:
    # Given a job whose only event is old, and a chunk that ends right after it was deleted
    job = await run_one(store)
    clock.advance(3600)
    meanwhile("batch_write_item", lambda: settled(elsewhere, change.advance(job, tally(), {})))
    assert await store.events.prune_events(older_than=MINUTE, limit=10) == 1

    # Then the job still counts as one with events, and the new one is pruned when it is old
    assert (await store.events.last_events([job.id]))[job.id].id == 2
    clock.advance(3600)
    assert await store.events.prune_events(older_than=MINUTE, limit=10) == 1


async def test_of_two_who_retry_a_job_at_once_the_slower_only_loses_the_race(
    store: DynamoStores, elsewhere: DynamoStores, meanwhile: Meanwhile
) -> None:
    # Given a failed job that another process sets going again while we do
    running = await run_one(store)
    failed = await settled(store, change.fail(running, reason=Reason.REFUSED, error="refused"))
    meanwhile("get_item", lambda: settled(elsewhere, change.start_again(failed, Reason.RETRY_NOW)))

    # Then we have lost, and no other job is in the way
    assert await store.jobs.settle(change.start_again(failed, Reason.RETRY_NOW)) is None
    assert (await store.jobs.get(failed.id)).state is JobState.PENDING


async def test_a_pause_that_is_asked_for_in_between_is_met(
    store: DynamoStores, elsewhere: DynamoStores, meanwhile: Meanwhile
) -> None:
    job = await run_one(store)
    meanwhile("get_item", lambda: settled(elsewhere, change.ask_pause(job)))
    done = await bring(store, job, *many(3))

    assert done.state is JobState.PAUSED
    assert await kinds(store, job.id) == ["submitted", "pause_asked", "paused"]


async def test_a_record_that_another_job_stores_in_between_is_counted_as_it_was_found(
    store: DynamoStores, elsewhere: DynamoStores, meanwhile: Meanwhile
) -> None:
    # Given two syncs of one connection that store their records under the same name
    mine = await run_one(store, connection_id="c")
    theirs = await run_one(store, connection_id="c", sync="other")
    meanwhile(
        "batch_get_item",
        lambda: bring(elsewhere, theirs, Record("a", {"of": "them"}), stored_as="notes"),
    )
    record = Record("a", {"of": "me"})

    assert counts(await bring(store, mine, record)) == (0, 1, 0)
    assert await held(store, mine) == [record]


# ---- answers that are lost ---------------------------------------------------------------------


@pytest.mark.fault(2, 13)
@pytest.mark.parametrize("times", [1, TRIES_MAX + 1])
async def test_a_change_whose_answers_are_lost_is_written_once(
    store: DynamoStores, client: FaultyClient, clock: ManualClock, times: int
) -> None:
    job = await run_one(store)
    client.choose = first(times, Fault.ANSWER_LOST, of="transact_write_items")

    work = ChunkWork(records=many(3))
    done = await settle_surely(store.jobs, clock, change.advance(job, tally(chunks=1), {}), work)

    assert done is not None
    assert (done.steps, done.summary.inserted) == (1, 3)
    assert await kinds(store, job.id) == ["submitted", "chunk"]


@pytest.mark.fault(13)
async def test_what_is_claimed_beside_a_claim_without_an_answer_is_worked_on(
    store: DynamoStores, client: FaultyClient
) -> None:
    jobs = [await submit_one(store) for _ in range(5)]
    client.choose = first(1, Fault.UNREACHABLE, of="update_item")

    async def claim() -> list[str]:
        found = await store.jobs.claim(Lane.COLD, worker="w", limit=5, lease=LEASE)
        return [job.id for job in found.jobs]

    claimed = await claim()

    assert len(claimed) == 4
    client.choose = None
    assert sorted([*claimed, *await claim()]) == [job.id for job in jobs]


async def test_a_claim_whose_answer_is_lost_is_found_by_the_rescuer(
    store: DynamoStores, client: FaultyClient, clock: ManualClock
) -> None:
    job = await submit_one(store)
    client.choose = first(1, Fault.ANSWER_LOST, of="update_item")
    with pytest.raises(StoreUnavailable):
        await claim_one(store)

    clock.advance(61)

    [lost] = await store.jobs.list_expired(limit=10)
    assert (lost.id, lost.token) == (job.id, 1)


# ---- indexes that are behind -------------------------------------------------------------------


@pytest.mark.fault(5, 14)
async def test_a_stale_entry_claims_nothing(store: DynamoStores, client: FaultyClient) -> None:
    # Given an index that still shows a job as pending that another worker has
    client.freeze_indexes()
    await submit_one(store)
    client.thaw_indexes()
    client.freeze_indexes()
    taken = await claim_one(store)

    # When a worker claims by what the index says
    claimed = await store.jobs.claim(Lane.COLD, worker="late", limit=1, lease=LEASE)

    # Then it gets nothing, and looks again soon
    assert list(claimed.jobs) == []
    assert claimed.next_due_s is not None and 0 < claimed.next_due_s < 1
    assert await store.jobs.get(taken.id) == taken


async def test_a_job_that_the_index_does_not_show_yet_is_claimed_by_its_hint(
    store: DynamoStores, client: FaultyClient
) -> None:
    client.freeze_indexes()
    assert (await store.jobs.claim(Lane.COLD, worker="w", limit=1, lease=LEASE)).jobs == []
    job = await submit_one(store)
    assert (await store.jobs.claim(Lane.COLD, worker="w", limit=1, lease=LEASE)).jobs == []

    claimed = await store.hinted.claim_job(job.id, step=0, worker="w", lease=LEASE)

    assert claimed is not None
    assert claimed.state is JobState.RUNNING


@pytest.mark.fault(14)
async def test_stale_entries_rescue_and_thaw_nothing(
    store: DynamoStores, client: FaultyClient, clock: ManualClock
) -> None:
    # Given an index that shows a lease that has run out, and a cool-down that is over
    running = await run_one(store)
    shut = await shut_one(store, cooldown_s=10)
    clock.advance(61)
    client.freeze_indexes()
    assert [job.id for job in await store.jobs.list_expired(limit=9)] == [running.id]
    assert [job.id for job in await store.breakers.list_thawable(limit=9)] == [shut.id]

    # When the worker comes back, and an operator takes over
    await store.jobs.extend([Claim(running.id, running.token)], lease=LEASE)
    await settled(store, change.keep_paused(shut))

    # Then the rows are what counts
    assert list(await store.jobs.list_expired(limit=9)) == []
    assert list(await store.breakers.list_thawable(limit=9)) == []
    assert await store.breakers.release_provider("roam", stagger=MINUTE, limit=9) == 0


async def test_the_active_job_of_a_connection_is_known_before_any_index_shows_it(
    store: DynamoStores, client: FaultyClient
) -> None:
    client.freeze_indexes()
    wanted = JobFilter(sync="notes", connection_id="c", states=(JobState.PENDING,))
    assert list(await store.jobs.list_jobs(wanted, limit=1)) == []
    job = await submit_one(store, connection_id="c")

    assert list(await store.jobs.list_jobs(wanted, limit=1)) == [job]


async def test_a_page_of_records_looks_at_so_many_of_all_connections_and_keeps_what_matches(
    store: DynamoStores, client: FaultyClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given connections none of whose records match
    monkeypatch.setattr(records, "SCAN_MAX", 10)
    monkeypatch.setattr(records, "_LOOK", 4)
    jobs = [await run_one(store, user_id="ada", connection_id=f"c{number}") for number in range(6)]
    for job in jobs:
        await bring(store, job, *many(3))
    which = RecordFilter(sync=jobs[0].sync, user_id="ada", key_prefix="other")

    # When all pages are read
    places, after = list[str](), None
    client.requests.clear()
    while True:
        page = await store.records.find_records(which, after=after, limit=5)
        after = page.after
        if after is None:
            break
        places.append(f"{after.connection_id} {after.key}")

    # Then each has looked at ten, a few at a time
    assert places == ["c3 record_0000"]
    wanted = [
        request["Limit"]
        for _, request in client.requests
        if "record#" in str(request.get("ExpressionAttributeValues"))
    ]
    assert max(wanted) == 5


async def test_a_user_s_records_are_found_without_a_look_at_those_of_others(
    store: DynamoStores, client: FaultyClient
) -> None:
    for user in ("ada", "bob"):
        job = await run_one(store, sync="notes", user_id=user, connection_id=f"of_{user}")
        await bring(store, job, *many(2))
    client.requests.clear()

    found = await store.records.find_records(RecordFilter(sync="notes", user_id="ada"), limit=10)

    assert [(row.connection_id, row.user_id) for row in found.rows] == [("of_ada", "ada")] * 2
    read = [request["ExpressionAttributeValues"][":pk"]["S"] for _, request in client.requests]
    # All owners of a sync are in one partition, which would be read whole.
    assert read == [keys.owners_of("notes", "ada"), keys.records("notes", "of_ada")]


# ---- hints -------------------------------------------------------------------------------------


@pytest.mark.fault(8, 9)
async def test_a_hint_claims_its_job_once(store: DynamoStores) -> None:
    job = await submit_one(store)

    async def claim(step: int | None) -> Job | None:
        return await store.hinted.claim_job(job.id, step=step, worker="w", lease=LEASE)

    running = await claim(0)
    assert running is not None
    assert running == await store.jobs.get(job.id)
    # The same message again, and one without a step
    assert await claim(0) is None
    assert await claim(None) is None

    # After a chunk the old message is late, and the new one is not
    await settled(store, change.rest(running, tally(), {}))
    assert await claim(0) is None
    assert (await claim(1)) is not None


async def test_an_application_may_have_more_syncs_than_a_condition_names_at_once(
    store: DynamoStores, client: FaultyClient
) -> None:
    others = [f"other_{number}" for number in range(110)]
    large = DynamoStores(store.table, [*others, *SYNCS])
    job = await submit_one(large)

    claimed = await large.hinted.claim_job(job.id, step=0, worker="w", lease=LEASE)
    assert claimed is not None
    await shut_one(large, connection_id="connection_2")
    assert list((await large.breakers.open_breakers()).values()) == [1]

    # The emulators accept longer ones.
    named = [
        listed.count(":")
        for _, request in client.requests
        for part in ("ConditionExpression", "FilterExpression")
        for listed in re.findall(r"IN \(([^)]*)\)", request.get(part, ""))
    ]
    assert max(named) == 100


async def test_a_hint_that_comes_too_early_or_to_another_application_claims_nothing(
    store: DynamoStores, clock: ManualClock
) -> None:
    asleep = await submit_one(store, delay_s=60)
    foreign = await submit_one(store, sync="elsewhere")

    async def claim(job_id: str) -> Job | None:
        return await store.hinted.claim_job(job_id, step=None, worker="w", lease=LEASE)

    assert [await claim(each) for each in (asleep.id, foreign.id, "never")] == [None, None, None]
    clock.advance(60)
    assert (await claim(asleep.id)) is not None


async def test_due_jobs_are_listed_for_hints_without_being_claimed(
    store: DynamoStores, clock: ManualClock
) -> None:
    later = await submit_one(store, delay_s=60)
    first_job = await submit_one(store)
    await submit_one(store, lane=Lane.HOT)

    assert (await store.hinted.list_due(Lane.COLD, limit=10)).jobs == [first_job]
    clock.advance(60)
    assert (await store.hinted.list_due(Lane.COLD, limit=10)).jobs == [first_job, later]
    assert (await store.hinted.list_due(Lane.COLD, limit=1)).jobs == [first_job]


# ---- throttling --------------------------------------------------------------------------------


@pytest.mark.fault(14)
@pytest.mark.parametrize("fault", [Fault.THROUGHPUT, Fault.THROTTLED, Fault.CONFLICT])
async def test_a_throttled_chunk_is_written_after_a_while(
    store: DynamoStores, client: FaultyClient, fault: Fault
) -> None:
    job = await run_one(store)
    client.choose = first(3, fault, of="transact_write_items")

    await bring(store, job, *many(2))

    assert client.met[fault] == 3
    assert await kinds(store, job.id) == ["submitted", "chunk"]


@pytest.mark.fault(14)
async def test_what_stays_throttled_is_unavailable_and_has_written_nothing(
    store: DynamoStores, client: FaultyClient
) -> None:
    job = await run_one(store)
    before = await everything(store)
    client.choose = first(TRIES_MAX, Fault.THROTTLED, of="transact_write_items")

    with pytest.raises(StoreUnavailable, match="ThrottlingError"):
        await bring(store, job, *many(2))

    client.choose = None
    assert await everything(store) == before


async def test_a_breaker_is_noted_once_for_its_provider(
    store: DynamoStores, client: FaultyClient
) -> None:
    for _ in range(3):
        await shut_one(store, source="roam")

    assert client.sent["put_item"] == 1
    assert await store.table.get(keys.breaker("roam")) is not None
    assert (await store.breakers.open_breakers()) == {"roam": 3}
