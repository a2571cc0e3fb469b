"""Schedules on both databases: a tick fires once, for everybody or for nobody."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from headgate.base.clock import ManualClock
from headgate.base.errors import NotFound, StoreError
from headgate.model import change
from headgate.model.job import EventKind, Job, Lane, Reason
from headgate.model.schedule import ScheduleState, SkipReason, Tick, TickKind, TickUser
from headgate.model.states import ConnectionState, JobState
from headgate.model.user import Frequency, Preferences
from headgate.ports.jobs.store import JobFilter
from headgate.ports.schedules import (
    DeclaredSchedule,
    FiredTick,
    TickCounts,
    TickOutcome,
    UserFailures,
)
from headgate.store.sql.engine.database import Database
from headgate.store.sql.jobs import rows as new_jobs
from headgate.store.sql.schedules import store as statements
from headgate.store.sql.schedules.store import SqlSchedules
from tests import stores
from tests.conformance.databases import others, shared_fixture
from tests.conformance.schedules import (
    DAY,
    NIGHTLY,
    QUERY,
    connection_row,
    crowd,
    new_tick,
    people,
    user_row,
)
from tests.store_bundles import SqlStores
from tests.stores import START, MakeDatabase, settled, submit_one, tally

MINUTE = timedelta(minutes=1)
FIVE = [f"user_{number:05d}" for number in range(1, 6)]


@pytest.fixture
def store(sql_store: SqlStores) -> SqlStores:
    """Jobs in the same database as the schedules."""
    return sql_store


@shared_fixture()
async def schedules(database: Database) -> SqlSchedules:
    schedules = SqlSchedules(database)
    await schedules.declare([NIGHTLY])
    return schedules


async def end(store: SqlStores, job: Job, *, succeeds: bool) -> None:
    """Let a running job succeed, or fail."""
    made = (
        change.succeed(job, tally(), {})
        if succeeds
        else change.fail(job, reason=Reason.REFUSED, error="no")
    )
    await settled(store, made)


async def state_of(schedules: SqlSchedules) -> ScheduleState:
    _, [state] = await schedules.states([NIGHTLY.name])
    return state


# ---- declaring ---------------------------------------------------------------------------------


async def test_a_schedule_is_stored_once_and_kept_as_it_is_defined(
    schedules: SqlSchedules, clock: ManualClock
) -> None:
    first = await state_of(schedules)
    assert first == ScheduleState(
        name="nightly", definition=NIGHTLY.definition, next_tick_at=START, updated_at=START
    )
    clock.advance(60)

    await schedules.declare([msgspec.structs.replace(NIGHTLY, next_tick_at=START + DAY)])

    assert await state_of(schedules) == first
    # One that is defined otherwise ticks otherwise
    await schedules.declare([DeclaredSchedule("nightly", "cron 0 4 * * * in UTC", START + DAY)])

    state = await state_of(schedules)
    assert (state.definition, state.next_tick_at) == ("cron 0 4 * * * in UTC", START + DAY)


async def test_states_come_in_the_order_of_the_names_with_the_stores_time(
    schedules: SqlSchedules,
) -> None:
    await schedules.declare([DeclaredSchedule("another", "fresh within 1d", START)])

    now, states = await schedules.states(["nightly", "unknown", "another"])
    assert now == START
    assert [state.name for state in states] == ["nightly", "another"]


# ---- firing ------------------------------------------------------------------------------------


async def test_a_tick_stores_its_jobs_and_moves_the_schedule_on(
    schedules: SqlSchedules, store: SqlStores
) -> None:
    skip = TickUser(user_id="user_6", connection_id="c_6", reason=SkipReason.INACTIVE)
    fired = await schedules.fire(new_tick(skips=[skip], missed=3))

    tick = Tick(
        schedule="nightly",
        tick=START,
        kind=TickKind.CRON,
        fired_at=START,
        queued=5,
        skipped=1,
        missed=3,
        worker="worker_1",
    )
    assert fired == FiredTick(tick, [])
    assert await schedules.get_tick("nightly", START) == tick
    state = await state_of(schedules)
    assert (state.last_tick, state.next_tick_at) == (START, START + DAY)
    jobs = await store.jobs.list_jobs(JobFilter(sync="notes"), limit=10)
    assert sorted((job.user_id, job.wake_at) for job in jobs) == [
        (f"user_{number:05d}", START + place * 2 * MINUTE)
        for place, number in enumerate(range(1, 6))
    ]
    users = await schedules.tick_users("nightly", START, limit=10)
    assert {each.job_id for each in users if each.reason is None} == {job.id for job in jobs}
    assert users[0] == skip


async def test_a_job_of_a_tick_is_like_one_that_was_submitted(
    schedules: SqlSchedules, store: SqlStores
) -> None:
    tick = new_tick([1])
    await schedules.fire(tick)
    submitted = await submit_one(store, delay_s=1.0)

    [job] = await store.jobs.list_jobs(JobFilter(user_id="user_00001"), limit=1)
    assert (job.state, job.reason, job.provider) == (JobState.PENDING, Reason.QUEUED, "roam")
    for field in type(job).__struct_fields__:
        if field not in ("id", "user_id", "connection_id", "key", "wake_at"):
            assert getattr(job, field) == getattr(submitted, field), field
    [event] = await store.events.list_events(job.id, after=0, limit=10)
    assert (event.kind, event.at) == (EventKind.SUBMITTED, START)
    assert event.data == {"lane": "cold", "schedule": "nightly", "tick": START.isoformat()}


async def test_jobs_are_claimed_when_their_time_comes(
    schedules: SqlSchedules, store: SqlStores, clock: ManualClock
) -> None:
    await schedules.fire(new_tick())

    claims = []
    for _ in range(5):
        result = await store.jobs.claim(Lane.COLD, worker="w", limit=5, lease=stores.LEASE)
        claims.append([job.user_id for job in result.jobs])
        clock.advance(120)
    assert claims == [[f"user_{number:05d}"] for number in range(1, 6)]


@pytest.mark.fault(21)
async def test_the_same_tick_fires_once_however_many_schedulers_try(
    make_database: MakeDatabase, schedules: SqlSchedules, store: SqlStores
) -> None:
    async with others(make_database, 3) as elsewhere:
        ports = [schedules, *map(SqlSchedules, elsewhere)]
        fired = await asyncio.gather(*(port.fire(new_tick(worker=str(port))) for port in ports))

    assert sum(each is not None for each in fired) == 1
    assert len(await store.jobs.list_jobs(JobFilter(), limit=100)) == 5
    assert len(await schedules.tick_users("nightly", START, limit=100)) == 5


async def test_a_scheduler_that_was_away_fires_nothing_that_has_fired(
    schedules: SqlSchedules, store: SqlStores, clock: ManualClock
) -> None:
    late = new_tick()
    await schedules.fire(new_tick())
    clock.advance(DAY.total_seconds())
    assert await schedules.fire(new_tick(tick=START + DAY, planned=START + DAY)) is not None
    before = await stores.everything(store)

    assert await schedules.fire(late) is None
    assert await stores.everything(store) == before


async def test_a_tick_that_has_fired_does_not_fire_again_if_the_schedule_comes_back_to_it(
    schedules: SqlSchedules, store: SqlStores
) -> None:
    await schedules.fire(new_tick())
    # Defined otherwise, and then as before, by an application whose clock had been set back.
    await schedules.declare([DeclaredSchedule("nightly", "other", START)])
    await schedules.declare([NIGHTLY])

    assert await schedules.fire(new_tick()) is None

    state = await state_of(schedules)
    assert (state.last_tick, state.next_tick_at) == (START, START + DAY)
    assert len(await store.jobs.list_jobs(JobFilter(), limit=100)) == 5


async def test_a_tick_does_not_fire_before_its_time_by_the_stores_clock(
    schedules: SqlSchedules, clock: ManualClock
) -> None:
    clock.advance(-1)
    assert await schedules.fire(new_tick()) is None
    clock.advance(1)
    assert await schedules.fire(new_tick()) is not None


async def test_a_paused_or_redefined_schedule_does_not_fire(
    schedules: SqlSchedules, store: SqlStores
) -> None:
    await schedules.pause("nightly", by="ada", reason=None)
    assert await schedules.fire(new_tick()) is None
    assert not await schedules.advance(
        "nightly", NIGHTLY.definition, planned=START, next_tick_at=START + DAY
    )

    await schedules.resume("nightly", next_tick_at=START)
    assert await schedules.fire(new_tick(definition="other")) is None
    assert await store.jobs.list_jobs(JobFilter(), limit=100) == []


async def test_a_crash_after_the_third_of_five_users_leaves_nothing_and_all_get_their_job_later(
    schedules: SqlSchedules, store: SqlStores
) -> None:
    before = await stores.everything(store)

    def dies(*_: object) -> None:
        raise KeyError("the process is gone")

    # The first three are written, and then the process ends: nobody commits.
    insert = new_jobs.insert

    def insert_three(tx: object, rows: object, data: object) -> set[str]:
        insert(tx, rows[:3], data)  # type: ignore[arg-type,index]
        raise KeyError("the process is gone")

    with patch.object(new_jobs, "insert", insert_three), pytest.raises(KeyError):
        await schedules.fire(new_tick())
    assert await stores.everything(store) == before
    with patch.object(statements, "_insert_users", dies), pytest.raises(KeyError):
        await schedules.fire(new_tick())
    assert await stores.everything(store) == before

    assert await schedules.fire(new_tick()) is not None
    jobs = await store.jobs.list_jobs(JobFilter(), limit=100)
    assert sorted(job.user_id for job in jobs) == FIVE


async def test_a_job_that_somebody_started_meanwhile_is_left_alone(
    schedules: SqlSchedules, store: SqlStores
) -> None:
    manual = await submit_one(store, user_id="user_00002", connection_id="connection_00002")

    fired = await schedules.fire(new_tick())

    assert fired is not None
    assert fired.overtaken == [
        TickUser(
            user_id="user_00002",
            connection_id="connection_00002",
            job_id=manual.id,
            reason=SkipReason.JOB_ACTIVE,
        )
    ]
    assert (fired.tick.queued, fired.tick.skipped) == (4, 1)
    assert await store.jobs.list_jobs(JobFilter(user_id="user_00002"), limit=10) == [manual]


async def test_the_key_alone_keeps_a_user_from_a_second_job(
    schedules: SqlSchedules, store: SqlStores
) -> None:
    await schedules.fire(new_tick([1]))
    await end(store, await stores.claim_one(store), succeeds=True)

    # As if the guard and the ticks had been lost.
    again = new_tick([1], planned=None, kind=TickKind.MANUAL, asked_by="x", tick=START + MINUTE)
    [same] = new_tick([1]).jobs
    fired = await schedules.fire(msgspec.structs.replace(again, jobs=[same]))

    assert fired is not None and fired.tick.queued == 0
    assert [each.job_id for each in fired.overtaken] == [None]
    assert len(await store.jobs.list_jobs(JobFilter(), limit=10)) == 1


async def test_ticks_that_nobody_fires_are_passed_over_and_one_that_is_asked_for_moves_nothing(
    schedules: SqlSchedules,
) -> None:
    before = await state_of(schedules)
    asked = new_tick(tick=START + MINUTE, planned=None, kind=TickKind.MANUAL, asked_by="ada")
    fired = await schedules.fire(asked)
    assert fired is not None and fired.tick.asked_by == "ada"
    assert await state_of(schedules) == before

    moved = {"planned": START, "next_tick_at": START + DAY}

    assert await schedules.advance("nightly", NIGHTLY.definition, **moved)
    assert not await schedules.advance("nightly", NIGHTLY.definition, **moved)
    state = await state_of(schedules)
    assert (state.last_tick, state.next_tick_at) == (None, START + DAY)


async def test_ten_thousand_users_are_one_tick(
    schedules: SqlSchedules, store: SqlStores, database: Database
) -> None:
    await submit_one(store, user_id="user_00001", connection_id="connection_00001")
    fired = await schedules.fire(new_tick(range(1, 10_001)))

    assert fired is not None
    assert (fired.tick.queued, fired.tick.skipped) == (9_999, 1)
    page = await schedules.tick_users("nightly", START, limit=3, after="connection_09998")
    assert [each.connection_id for each in page] == ["connection_09999", "connection_10000"]


# ---- pausing -----------------------------------------------------------------------------------


async def test_a_pause_says_who_and_why_and_who_was_first_stays(
    schedules: SqlSchedules, clock: ManualClock
) -> None:
    clock.advance(60)
    paused, changed = await schedules.pause("nightly", by="ada", reason="maintenance")
    assert changed
    who = (paused.paused_at, paused.paused_by, paused.pause_reason)
    assert who == (clock.now(), "ada", "maintenance")

    assert await schedules.pause("nightly", by="bob", reason=None) == (paused, False)
    resumed, changed = await schedules.resume("nightly", next_tick_at=START + DAY)
    assert changed
    assert (resumed.paused_at, resumed.paused_by, resumed.pause_reason) == (None, None, None)
    assert resumed.next_tick_at == START + DAY
    assert await schedules.resume("nightly", next_tick_at=START) == (resumed, False)
    # One that was never stored cannot be paused
    with pytest.raises(NotFound, match="'other' is stored yet"):
        await schedules.pause("other", by="ada", reason=None)


# ---- candidates --------------------------------------------------------------------------------


async def test_candidates_are_the_connections_of_the_source_with_what_is_known_of_their_users(
    schedules: SqlSchedules, database: Database, store: SqlStores, clock: ManualClock
) -> None:
    wishes = Preferences(frequency=Frequency.WEEKLY, time="07:30", zone="Europe/Berlin")
    await people(
        database,
        (connection_row(1), user_row(1, plan="paid", preferences=wishes)),
        (
            connection_row(2, state=ConnectionState.NEEDS_REAUTH),
            user_row(2, paused_at=START, paused_by="ada", last_login_at=None),
        ),
        (connection_row(3), None),
        (connection_row(4, source="other"), user_row(4)),
    )
    active = await submit_one(store, connection_id="connection_00003")
    await submit_one(store, connection_id="connection_00001", sync="other")

    now, found = await schedules.candidates(QUERY, after=None, limit=10)

    assert now == clock.now()
    first, second, third = found
    assert (first.user_id, first.connection_id) == ("user_00001", "connection_00001")
    assert (first.plan, first.preferences, first.last_login_at) == ("paid", wishes, START)
    assert (first.state, first.paused, first.active_job_id) == (ConnectionState.ACTIVE, False, None)
    assert (second.state, second.paused) == (ConnectionState.NEEDS_REAUTH, True)
    assert second.last_login_at is None
    assert (third.last_login_at, third.preferences) == (None, Preferences())
    assert third.active_job_id == active.id
    assert (first.destinations, first.destination_connection_id) == (None, None)


async def test_candidates_come_in_pages(schedules: SqlSchedules, database: Database) -> None:
    await crowd(database, 5)

    _, first = await schedules.candidates(QUERY, after=None, limit=3)
    _, rest = await schedules.candidates(QUERY, after=first[-1].connection_id, limit=3)
    assert [each.connection_id for each in (*first, *rest)] == [
        f"connection_{number:05d}" for number in range(1, 6)
    ]


async def test_without_connections_every_user_is_a_candidate(
    schedules: SqlSchedules, database: Database, store: SqlStores
) -> None:
    await crowd(database, 2)
    active = await submit_one(store, connection_id="user_00002")
    query = msgspec.structs.replace(QUERY, source=None)

    _, found = await schedules.candidates(query, after=None, limit=10)

    assert [(each.user_id, each.connection_id, each.state) for each in found] == [
        ("user_00001", "user_00001", None),
        ("user_00002", "user_00002", None),
    ]
    assert [each.active_job_id for each in found] == [None, active.id]
    _, [second] = await schedules.candidates(query, after="user_00001", limit=10)
    assert second == found[1]


async def test_the_connection_at_the_destination_is_the_only_one_there(
    schedules: SqlSchedules, database: Database
) -> None:
    there = {"source": "there"}
    await people(
        database,
        *((connection_row(number), user_row(number)) for number in (1, 2, 3)),
        (connection_row(12, user_id="user_00002", **there), None),
        (connection_row(13, user_id="user_00003", **there), None),
        (connection_row(23, user_id="user_00003", **there), None),
    )
    query = msgspec.structs.replace(QUERY, destination="there")

    _, found = await schedules.candidates(query, after=None, limit=10)

    assert [each.destinations for each in found] == [0, 1, 2]
    assert found[0].destination_state is None
    assert found[1].destination_connection_id == "connection_00012"
    assert found[1].destination_state is ConnectionState.ACTIVE


async def test_the_last_tick_is_the_last_with_a_job(
    schedules: SqlSchedules, database: Database, clock: ManualClock
) -> None:
    await crowd(database, 2)
    skip = TickUser(
        user_id="user_00001", connection_id="connection_00001", reason=SkipReason.NOT_DUE
    )
    await schedules.fire(new_tick([1]))
    clock.advance(DAY.total_seconds())
    skipping = new_tick([], tick=START + DAY, planned=START + DAY, skips=[skip])
    assert await schedules.fire(skipping) is not None

    _, found = await schedules.candidates(QUERY, after=None, limit=10)
    assert [each.last_tick for each in found] == [START, None]
    other = msgspec.structs.replace(QUERY, schedule="other")
    _, found = await schedules.candidates(other, after=None, limit=10)
    assert [each.last_tick for each in found] == [None, None]


async def test_ages_are_told_where_they_are_wanted(
    schedules: SqlSchedules, database: Database, store: SqlStores, clock: ManualClock
) -> None:
    await crowd(database, 2)
    times = []
    for succeeds in (True, False, False):
        clock.advance(60)
        times.append(clock.now())
        running = await stores.run_one(store, connection_id="connection_00001")
        await end(store, running, succeeds=succeeds)
    query = msgspec.structs.replace(QUERY, ages=True)

    _, [first, second] = await schedules.candidates(query, after=None, limit=10)
    assert (first.succeeded_at, first.ended_at) == (times[0], times[2])
    assert (second.succeeded_at, second.ended_at) == (None, None)
    _, [first, _] = await schedules.candidates(QUERY, after=None, limit=10)
    assert (first.succeeded_at, first.ended_at) == (None, None)


# ---- history -----------------------------------------------------------------------------------


async def ended_ticks(schedules: SqlSchedules, store: SqlStores, clock: ManualClock) -> None:
    """Three nights: user 1 succeeds, user 2 fails, user 3 is inactive."""
    for night in range(3):
        tick = START + night * DAY
        skip = TickUser(user_id="user_3", connection_id="c_3", reason=SkipReason.INACTIVE)
        await schedules.fire(new_tick([1, 2], tick=tick, planned=tick, skips=[skip]))
        clock.advance(3600)
        for _ in range(2):
            job = await stores.claim_one(store)
            await end(store, job, succeeds=job.user_id == "user_00001")
        clock.advance(DAY.total_seconds() - 3600)


async def test_history_tells_what_became_of_the_jobs_of_each_tick_and_who_keeps_failing(
    schedules: SqlSchedules, store: SqlStores, clock: ManualClock
) -> None:
    await ended_ticks(schedules, store, clock)
    since = START + DAY

    found = await schedules.outcomes_since(["nightly", "weekly"], since)
    assert found["weekly"] == []
    outcomes = found["nightly"]
    assert sorted(outcomes, key=lambda each: (each.tick, each.state)) == [
        TickOutcome(START + night * DAY, state, 1)
        for night in (1, 2)
        for state in (JobState.FAILED, JobState.SUCCESS)
    ]
    assert [tick.tick for tick in await schedules.ticks_since("nightly", since)] == [
        START + DAY,
        START + 2 * DAY,
    ]
    assert await schedules.counts_since(START) == {"nightly": TickCounts(3, 6, 3, 0)}
    assert await schedules.counts_since(clock.now()) == {}
    assert await schedules.skip_counts("nightly", START) == {SkipReason.INACTIVE: 1}


async def test_users_who_keep_failing_are_named(
    schedules: SqlSchedules, store: SqlStores, clock: ManualClock
) -> None:
    await ended_ticks(schedules, store, clock)

    asked: dict[str, Any] = {"planned": None, "kind": TickKind.MANUAL, "asked_by": "ada"}
    await schedules.fire(new_tick([4, 2], schedule="weekly", tick=clock.now(), **asked))
    clock.advance(3600)
    for job in [await stores.claim_one(store), await stores.claim_one(store)]:
        await settled(store, change.fail(job, reason=Reason.REFUSED, error="no"))

    async def failing(least: int, limit: int) -> list[Sequence[UserFailures]]:
        names = ["nightly", "weekly"]
        found = await schedules.failing_users(names, START, least=least, limit=limit)
        return [found[name] for name in names]

    often, once = UserFailures("user_00002", 3), UserFailures("user_00002", 1)
    also = UserFailures("user_00004", 1)
    assert await failing(1, 9) == [[often], [once, also]]
    assert await failing(1, 1) == [[often], [once]]
    assert await failing(3, 9) == [[often], []]
    assert await failing(4, 9) == [[], []]


async def test_ticks_are_listed_from_the_latest_and_found_by_their_time(
    schedules: SqlSchedules, store: SqlStores, clock: ManualClock
) -> None:
    await ended_ticks(schedules, store, clock)

    latest = await schedules.ticks("nightly", limit=2)
    assert [tick.tick for tick in latest] == [START + 2 * DAY, START + DAY]
    [first] = await schedules.ticks("nightly", limit=2, before=latest[-1].tick)
    assert first == await schedules.get_tick("nightly", START)
    with pytest.raises(NotFound, match="has not fired at 2026-01-05T12:01"):
        await schedules.get_tick("nightly", START + MINUTE)
    skipped = await schedules.tick_users(
        "nightly", START, reasons=[SkipReason.INACTIVE, SkipReason.PLAN], limit=10
    )
    assert [each.user_id for each in skipped] == ["user_3"]


async def test_old_ticks_are_pruned_a_part_at_a_time(
    schedules: SqlSchedules, store: SqlStores, clock: ManualClock
) -> None:
    await ended_ticks(schedules, store, clock)

    async def prune(limit: int) -> int:
        # It is the fourth day: two ticks are older than a day and a half.
        return await schedules.prune_ticks(older_than=1.5 * DAY, limit=limit)

    assert [await prune(2) for _ in range(5)] == [2, 2, 2, 2, 0]
    assert [tick.tick for tick in await schedules.ticks("nightly", limit=9)] == [START + 2 * DAY]
    assert len(await schedules.tick_users("nightly", START + 2 * DAY, limit=9)) == 3
    assert await schedules.tick_users("nightly", START, limit=9) == []


async def test_a_row_without_a_job_or_a_reason_is_refused(schedules: SqlSchedules) -> None:
    nothing = TickUser(user_id="u", connection_id="c")
    with pytest.raises(StoreError, match="ck_headgate_tick_users_outcome"):
        await schedules.fire(new_tick(skips=[nothing]))
