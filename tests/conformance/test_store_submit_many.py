"""Submitting many at once: each request fares as if it had come alone, in its place."""

import asyncio
from collections.abc import Sequence
from datetime import date, timedelta
from itertools import product
from typing import Any

import pytest
from sqlalchemy import Connection, event

from headgate.base.errors import ActiveJobExists, KeyReused
from headgate.model.job import Job, JobParams, Lane, Mode
from headgate.model.states import JOB
from headgate.ports.jobs.store import JobFilter
from headgate.ports.jobs.submission import NewJob, SubmitOutcome, SubmitStatus
from headgate.store.sql.jobs import submit_many as bulk_submit
from tests.conformance.databases import others
from tests.store_bundles import SqlStores, Stores
from tests.stores import (
    START,
    SYNCS,
    MakeDatabase,
    claim_ids,
    in_state,
    is_sql,
    kinds,
    new_job,
    submit_one,
)

CREATED, EXISTING, ACTIVE, REFUSED = SubmitStatus


def statuses(outcomes: Sequence[SubmitOutcome]) -> list[SubmitStatus]:
    return [outcome.status for outcome in outcomes]


async def stored(store: Stores) -> list[Job]:
    return sorted(await store.jobs.list_jobs(JobFilter(), limit=5000), key=lambda job: job.id)


async def alone(store: Stores, wanted: NewJob) -> SubmitOutcome:
    """What becomes of a request that comes alone."""
    try:
        submitted = await store.jobs.submit(wanted)
    except ActiveJobExists as error:
        return SubmitOutcome(ACTIVE, error.job_id)
    except KeyReused as error:
        return SubmitOutcome(REFUSED, error.job_id, field="key")
    return SubmitOutcome(CREATED if submitted.created else EXISTING, submitted.job.id)


async def test_a_job_of_many_is_like_one_that_was_submitted_alone(store: Stores) -> None:
    # Given a request with every field set, the same for another connection, and one that waits
    fields = {
        "mode": Mode.HISTORY,
        "lane": Lane.HOT,
        "params": JobParams(
            since=START,
            limit=7,
            options={"deep": [1, 2.5, None, "ü'\""]},
            plan=((date(2024, 3, 1), date(2024, 3, 1)),),
        ),
        "start_date": date(2024, 2, 29),
        "end_date": date(2024, 3, 1),
        "cursor": "2024-03-01",
    }
    single = await submit_one(store, user_id="ann", key="k", **fields)
    wanted = new_job(user_id="bob", key="k", **fields)  # type: ignore[arg-type]
    delayed = new_job(delay_s=90)

    # When these come in a batch
    outcomes = await store.jobs.submit_many([wanted, delayed])

    # Then the first two differ in nothing but their names and turns
    assert list(outcomes) == [SubmitOutcome(CREATED, each.id) for each in (wanted, delayed)]
    job = await store.jobs.get(wanted.id)
    for field in Job.__struct_fields__:
        if field not in ("id", "user_id", "connection_id", "turn"):
            assert getattr(job, field) == getattr(single, field), field
    if isinstance(store, SqlStores):
        assert (single.turn, job.turn) == (1, 2)
    [first] = await store.events.list_events(single.id, after=0, limit=10)
    [event] = await store.events.list_events(job.id, after=0, limit=10)
    assert (event.kind, event.at, event.data) == (first.kind, first.at, first.data)
    # And the last wakes after its delay
    asleep = await store.jobs.get(delayed.id)
    assert (asleep.wake_at, asleep.turn) == (START + timedelta(seconds=90), None)


@pytest.mark.parametrize("count", [1, 30, 127, 129, 1000])
async def test_a_batch_of_any_size_is_stored_whole_and_answered_in_its_order(
    store: Stores, count: int
) -> None:
    # Given connections whose order is another than that of the requests
    wanted = [new_job(connection_id=f"c{n * 7919 % 10_007}", key=f"k{n}") for n in range(count)]

    outcomes = await store.jobs.submit_many(wanted)

    assert list(outcomes) == [SubmitOutcome(CREATED, new.id) for new in wanted]
    assert [job.id for job in await stored(store)] == [new.id for new in wanted]


async def test_each_request_meets_what_is_stored_and_those_before_it(store: Stores) -> None:
    # Given a job under a key, and one that is active
    keyed = await submit_one(store, key="k1", connection_id="c1")
    active = await submit_one(store, connection_id="c2")

    # When requests come that meet these, and each other
    wanted = [
        new_job(connection_id="c3"),
        new_job(key="k1", connection_id="c1"),
        new_job(connection_id="c2"),
        new_job(key="k1", request_hash="other", connection_id="c4"),
        new_job(key="k2", connection_id="c5"),
        new_job(key="k2", connection_id="c5"),
        new_job(key="k2", request_hash="other", connection_id="c6"),
        new_job(connection_id="c5"),
        new_job(connection_id="c3", sync="other"),
        # The one before it under this key is refused, so the key is still free.
        new_job(key="k3", connection_id="c3"),
        new_job(key="k3", connection_id="c7"),
        # The key of another user.
        new_job(key="k1", user_id="user_2", connection_id="c8"),
    ]
    outcomes = await store.jobs.submit_many(wanted)

    # Then each is answered in its place
    answers = [(outcome.status, outcome.job_id, outcome.field) for outcome in outcomes]
    assert answers == [
        (CREATED, wanted[0].id, None),
        (EXISTING, keyed.id, None),
        (ACTIVE, active.id, None),
        (REFUSED, keyed.id, "key"),
        (CREATED, wanted[4].id, None),
        (EXISTING, wanted[4].id, None),
        (REFUSED, wanted[4].id, "key"),
        (ACTIVE, wanted[4].id, None),
        (CREATED, wanted[8].id, None),
        (ACTIVE, wanted[0].id, None),
        (CREATED, wanted[10].id, None),
        (CREATED, wanted[11].id, None),
    ]
    assert all(isinstance(each.error, KeyReused) for each in outcomes if each.status is REFUSED)
    created = {outcome.job_id for outcome in outcomes if outcome.status is CREATED}
    assert {job.id for job in await stored(store)} == created | {keyed.id, active.id}
    for job_id in created:
        assert job_id is not None
        assert await kinds(store, job_id) == ["submitted"]


async def test_many_at_once_fare_as_one_after_another(store: Stores) -> None:
    # Given requests of few users with few keys and connections, so that most meet another
    def requests(prefix: str) -> list[NewJob]:
        return [
            new_job(
                job_id=f"{prefix}_{n:04d}",
                user_id=f"{prefix}_u{n % 3}",
                key=None if n % 4 == 0 else f"k{n * 5 % 7}",
                request_hash=f"hash{n % 2}",
                connection_id=f"{prefix}_c{n * 3 % 37}",
                sync="notes" if n % 5 else "other",
                lane=Lane.HOT if n % 2 else Lane.COLD,
                delay_s=60 if n % 7 == 0 else 0,
            )
            for n in range(80)
        ]

    def unnamed(outcome: SubmitOutcome) -> tuple[SubmitStatus, str, str | None]:
        assert outcome.job_id is not None
        return outcome.status, outcome.job_id.partition("_")[2], outcome.field

    # When they come one after another, and others like them together
    singly = [await alone(store, each) for each in requests("one")]
    together = await store.jobs.submit_many(requests("all"))

    # Then they are answered alike, each kind of answer among them
    assert list(map(unnamed, together)) == list(map(unnamed, singly))
    assert set(statuses(together)) == set(SubmitStatus)


async def test_a_key_stands_for_its_job_and_an_ended_job_makes_room(store: Stores) -> None:
    for state, together in product(JOB.terminal, (True, False)):
        name = f"{state} {together}"
        ended = await in_state(store, state, key=name, connection_id=name)

        wanted = [new_job(key=name, connection_id=name), new_job(connection_id=name)]
        if together:
            first, second = await store.jobs.submit_many(wanted)
        else:
            first, second = [await alone(store, each) for each in wanted]

        assert first == SubmitOutcome(EXISTING, ended.id)
        assert second.status is CREATED
        await claim_ids(store, 1)


async def test_a_repeated_batch_writes_nothing(store: Stores) -> None:
    def batch() -> list[NewJob]:
        count = 200 if is_sql(store) else 40
        return [new_job(key=f"k{n}", connection_id=f"c{n}") for n in range(count)]

    before = await store.jobs.submit_many(batch())
    jobs = await stored(store)

    again = await store.jobs.submit_many(batch())

    assert list(again) == [SubmitOutcome(EXISTING, outcome.job_id) for outcome in before]
    assert list(await store.jobs.submit_many([])) == []
    assert await stored(store) == jobs


# ---- turns -------------------------------------------------------------------------------------


async def test_jobs_of_a_user_take_consecutive_turns_after_those_that_wait(
    sql_store: SqlStores,
) -> None:
    # Given a user with two waiting jobs, and one whose jobs come in one batch with theirs
    await submit_one(sql_store, user_id="ann")
    await submit_one(sql_store, user_id="ann")
    await submit_one(sql_store, user_id="ann", lane=Lane.HOT)
    wanted = [
        new_job(user_id="ann"),
        new_job(user_id="bob"),
        new_job(user_id="bob", delay_s=60),
        new_job(user_id="bob", lane=Lane.HOT),
        new_job(user_id="bob"),
        new_job(user_id="bob", sync="foreign"),
        new_job(user_id="ann"),
    ]

    await sql_store.jobs.submit_many(wanted)

    # Then each lane counts for itself, and who sleeps or is another application's has no turn
    turns = {job.id: job.turn for job in await stored(sql_store)}
    assert [turns[new.id] for new in wanted] == [3, 2, None, 2, 3, None, 4]


async def test_a_request_without_a_job_takes_no_turn(sql_store: SqlStores) -> None:
    await submit_one(sql_store, user_id="bob", connection_id="c", key="k", lane=Lane.HOT)
    refused = [new_job(user_id="ann", connection_id="c") for _ in range(10)]
    known = [new_job(user_id="bob", connection_id="c", key="k") for _ in range(10)]
    mine, theirs = new_job(user_id="ann"), new_job(user_id="bob")

    outcomes = await sql_store.jobs.submit_many([*refused, *known, mine, theirs])

    assert statuses(outcomes) == [ACTIVE] * 10 + [EXISTING] * 10 + [CREATED] * 2
    turns = {job.id: job.turn for job in await stored(sql_store)}
    assert turns[mine.id] == turns[theirs.id] == 1


async def test_a_large_batch_of_one_user_does_not_make_others_wait(sql_store: SqlStores) -> None:
    # Given a user with many jobs, of which the first is being served
    many = [new_job(user_id="ann") for _ in range(20)]
    await sql_store.jobs.submit_many(many)
    assert await claim_ids(sql_store, 1) == [many[0].id]

    # When another user comes with two
    few = [new_job(user_id="bob") for _ in range(2)]
    await sql_store.jobs.submit_many(few)

    # Then the two users take turns
    claimed = await claim_ids(sql_store, 5)
    assert set(claimed[:3]) == {many[1].id, many[2].id, few[0].id}
    assert {few[1].id, many[3].id} == set(claimed[3:])


# ---- races -------------------------------------------------------------------------------------


async def test_of_the_same_batch_sent_many_times_at_once_each_job_is_made_once(
    make_database: MakeDatabase, sql_store: SqlStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    submit = bulk_submit.submit_many

    def count(*given: Any, **named: Any) -> list[SubmitOutcome]:
        runs.append(given)
        return submit(*given, **named)

    monkeypatch.setattr(bulk_submit, "submit_many", count)
    # Given the same requests in several processes, in each in another order
    sizes = range(400)
    orders = [sizes, sizes[::-1], [*sizes[200:], *sizes[:200]], sizes]
    batches = [
        [new_job(key=f"k{n}", connection_id=f"c{n}", user_id=f"u{n % 5}") for n in order]
        for order in orders
    ]

    # When all are submitted at the same time
    async with others(make_database, 3) as elsewhere:
        stores = [sql_store, *(SqlStores(each, SYNCS) for each in elsewhere)]
        answers = await asyncio.gather(
            *(one.jobs.submit_many(batch) for one, batch in zip(stores, batches, strict=True))
        )

    # Then every key has one job, which all are told
    jobs = {job.key: job.id for job in await stored(sql_store)}
    assert len(jobs) == len(sizes)
    for batch, outcomes in zip(batches, answers, strict=True):
        assert [outcome.job_id for outcome in outcomes] == [jobs[new.key] for new in batch]
    created = [each for answer in answers for each in statuses(answer) if each is CREATED]
    assert len(created) == len(sizes)
    # And no transaction was ended because two waited for each other.
    assert len(runs) == len(stores)


async def test_what_was_decided_by_a_job_that_lost_a_race_is_decided_anew(
    sql_store: SqlStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a job that another request has stored since this one looked
    winner = await submit_one(sql_store, connection_id="c", key="theirs")
    read_active, looks = bulk_submit._read_active, 0

    def look(*given: Any) -> dict[tuple[str, str], str]:
        nonlocal looks
        looks += 1
        return {} if looks == 1 else read_active(*given)

    monkeypatch.setattr(bulk_submit, "_read_active", look)

    # When several requests are for the same connection
    wanted = [new_job(connection_id="c", key=key) for key in ("a", "a", "b")]
    outcomes = await sql_store.jobs.submit_many(wanted)

    # Then all are told of that job, and none of one that was never stored
    assert looks == 2
    assert [(each.status, each.job_id) for each in outcomes] == [(ACTIVE, winner.id)] * 3


async def test_jobs_are_inserted_in_one_order_whatever_the_order_of_the_requests(
    sql_store: SqlStores,
) -> None:
    # Given requests in no order, and somebody who listens to the statements
    asked = [new_job(connection_id=f"c{n}") for n in (3, 1, 2, 0)]
    given: list[Any] = []

    def hear(_: object, __: object, statement: str, values: Sequence[Any], *___: object) -> None:
        if "INSERT INTO headgate_jobs" in statement:
            given.extend(values)

    def submit(tx: Connection) -> list[SubmitOutcome]:
        event.listen(tx, "before_cursor_execute", hear)
        return bulk_submit.submit_many(tx, sql_store.database.moment(), asked, syncs=("notes",))

    # When they are submitted
    outcomes = await sql_store.database.write(submit)

    # Then two batches that meet would take the connections in the same order
    assert statuses(outcomes) == [CREATED] * len(asked)
    # A list for each column on Postgres, the values themselves on SQLite.
    flat = [each for value in given for each in (value if isinstance(value, list) else [value])]
    assert [each for each in flat if each in ("c0", "c1", "c2", "c3")] == ["c0", "c1", "c2", "c3"]


async def test_batches_that_cross_each_other_in_keys_and_connections_all_end(
    make_database: MakeDatabase, sql_store: SqlStores
) -> None:
    # Given two batches in which the same keys stand for other connections, in the other order
    count = 40
    one = [new_job(key=f"k{n}", connection_id=f"a{n:02d}") for n in range(count)]
    two = [
        new_job(key=f"k{count - 1 - n}", connection_id=f"b{n:02d}", request_hash="other")
        for n in range(count)
    ]
    async with others(make_database) as [other]:
        answers = await asyncio.gather(
            sql_store.jobs.submit_many(one), SqlStores(other, SYNCS).jobs.submit_many(two)
        )

    # Then each key has one job, and who lost is told that the key was used for another request
    jobs = {job.key: job.id for job in await stored(sql_store)}
    assert len(jobs) == count
    for batch, outcomes in zip((one, two), answers, strict=True):
        assert [outcome.job_id for outcome in outcomes] == [jobs[new.key] for new in batch]
        assert set(statuses(outcomes)) <= {CREATED, REFUSED}


async def test_a_batch_meets_single_requests_for_the_same_connections(store: Stores) -> None:
    batch = [new_job(connection_id=f"c{n}") for n in range(100)]
    singles = [new_job(connection_id=f"c{n}") for n in range(0, 100, 5)]

    outcomes, *answers = await asyncio.gather(
        store.jobs.submit_many(batch), *(alone(store, each) for each in singles)
    )

    jobs = {job.connection_id: job.id for job in await stored(store)}
    assert len(jobs) == len(batch)
    assert isinstance(outcomes, list)
    assert [outcome.job_id for outcome in outcomes] == [jobs[new.connection_id] for new in batch]
    for single, answer in zip(singles, answers, strict=True):
        assert isinstance(answer, SubmitOutcome)
        assert answer.job_id == jobs[single.connection_id]
