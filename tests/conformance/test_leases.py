"""Leases: one suite for every leased type, on every database that has it.

What only one type does is tested beside it: `test_store_*.py` for jobs, `test_items*.py` for items,
`test_outbox*.py` for deliveries.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import update

from headgate.base.clock import ManualClock
from headgate.base.errors import NotFound, StoreError
from headgate.flow.leases import rescue
from headgate.model.lease import Claim
from headgate.store.sql.engine.database import Database
from headgate.store.sql.leases.port import SqlLeases
from tests.conformance.databases import OpenDatabase, count_writes, shared_fixture
from tests.conformance.leased_types import TYPES, LeasedRows, Make, Settlement
from tests.stores import LEASE, START, execute


@pytest.fixture(params=TYPES)
def type_name(request: pytest.FixtureRequest) -> str:
    """Each leased type in turn."""
    name: str = request.param
    return name


@shared_fixture()
async def rows(type_name: str, open_any: OpenDatabase) -> AsyncIterator[LeasedRows]:
    """The rows of that type, on each kind of database in turn; there are none yet."""
    async with open_any() as database:
        yield TYPES[type_name](database)


@pytest.fixture
def sql_rows(type_name: str, database: Database) -> LeasedRows:
    """The same on each SQL database in turn: for what only those promise."""
    return TYPES[type_name](database)


# ---- what the tests do -------------------------------------------------------------------------


async def claim(
    rows: LeasedRows, limit: int = 1, *, worker: str = "worker_1", lease: timedelta = LEASE
) -> Sequence[Any]:
    return await rows.claim(limit, worker=worker, lease=lease)


async def claim_new(rows: LeasedRows, count: int) -> list[Any]:
    """Add so many, and claim them; in the order of their ids."""
    await rows.add(count)
    taken = await claim(rows, count)
    assert len(taken) == count
    return sorted(taken, key=lambda row: str(row.id))


async def settled(rows: LeasedRows, made: Settlement) -> Any:
    """Settle a change that must take effect; the row as it became, which is what is stored."""
    after = await rows.port.settle(*made)
    assert after is not None
    assert after == await rows.port.get(after.id)
    return after


async def assert_refused(rows: LeasedRows, made: Mapping[str, Settlement]) -> None:
    """Each change comes too late: neither it nor what belongs to it leaves a trace."""
    before = await rows.everything()
    for name, each in made.items():
        assert await rows.port.settle(*each) is None, name
    assert await rows.port.settle_many(list(made.values())) == [None] * len(made)
    assert await rows.everything() == before


def all_of(of: Mapping[str, Make], row: Any) -> dict[str, Settlement]:
    """Each of these changes, as whoever has seen the row like this makes it."""
    return {name: make(row) for name, make in of.items()}


def claim_of(row: Any) -> Claim:
    return Claim(row.id, row.token)


def ids(of: Sequence[Any]) -> list[str]:
    return [row.id for row in of]


async def expire(rows: LeasedRows, clock: ManualClock) -> Sequence[Any]:
    """Let every lease run out; what a rescuer finds."""
    clock.advance(LEASE.total_seconds() + 1)
    return await rows.port.list_expired(limit=100)


# ---- claiming ----------------------------------------------------------------------------------


async def test_a_claim_sets_state_token_lease_worker_and_time(
    rows: LeasedRows, clock: ManualClock
) -> None:
    [row_id] = await rows.add(1)
    clock.advance(5)

    [row] = await claim(rows, worker="worker_7", lease=timedelta(seconds=30))

    kind = rows.port.kind
    assert row == await rows.port.get(row_id)
    assert row.state is kind.machine.claim.target
    assert (row.token, row.worker) == (1, "worker_7")
    assert row.lease_until == START + timedelta(seconds=35)
    assert row.attempted_at == row.updated_at == START + timedelta(seconds=5)
    assert getattr(row, kind.wake) is None


async def test_a_claim_skips_what_others_have(rows: LeasedRows) -> None:
    added = await rows.add(3)

    first = await claim(rows, 2)
    second = await claim(rows, 3, worker="worker_2")

    assert sorted([*ids(first), *ids(second)]) == added
    assert [row.worker for row in second] == ["worker_2"]
    assert list(await claim(rows, 3)) == []


async def test_claims_at_the_same_time_never_share_a_row(rows: LeasedRows) -> None:
    # DynamoDB claims one by one, and an emulator is slow at that.
    count, each = (40, 3) if isinstance(rows.port, SqlLeases) else (15, 2)
    added = await rows.add(count)

    answers = await asyncio.gather(*(claim(rows, each, worker=f"w{n}") for n in range(12)))

    taken = [row.id for answer in answers for row in answer]
    assert sorted([*taken, *ids(await claim(rows, count))]) == added
    found = [await rows.port.get(row_id) for row_id in added]
    assert {row.token for row in found} == {1}


async def test_a_later_claim_raises_the_token(rows: LeasedRows) -> None:
    [first] = await claim_new(rows, 1)
    released = await settled(rows, rows.changes["release"](first))

    [second] = await claim(rows, worker="worker_2")

    assert (second.id, second.token) == (first.id, released.token + 1)
    assert second.worker == "worker_2"


# ---- keeping -----------------------------------------------------------------------------------


async def test_only_what_is_still_ours_is_extended(rows: LeasedRows, clock: ManualClock) -> None:
    # Given a row that is ours, one that has ended, and one that is another's by now
    ours, ended, others = await claim_new(rows, 3)
    await settled(rows, rows.changes["finish"](ended))
    await settled(rows, rows.changes["release"](others))
    await claim(rows, worker="worker_2")
    before = [await rows.port.get(row.id) for row in (ended, others)]

    # When a worker extends all three, one that was never there, and one that it has yet to claim
    clock.advance(10)
    claims = [claim_of(row) for row in (ours, ended, others)]
    more = [Claim("never", 1), Claim(ours.id, ours.token + 1)]
    states = await rows.port.extend([*claims, *more], lease=LEASE)

    # Then only the first is, from now on
    assert states == {ours.id: ours.state}
    assert await rows.port.get(ours.id) == replace(ours, lease_until=clock.now() + LEASE)
    assert [await rows.port.get(row.id) for row in (ended, others)] == before
    # And to extend nothing writes nothing
    written = await rows.everything()
    assert await rows.port.extend([], lease=LEASE) == {}
    assert await rows.everything() == written


async def test_the_leases_of_a_worker_that_died_expire_at_once_and_no_others(
    rows: LeasedRows, clock: ManualClock
) -> None:
    # Given the claims of two workers, one that has ended, and a row that nobody has
    theirs, ended = await claim_new(rows, 2)
    await settled(rows, rows.changes["finish"](ended))
    await rows.add(2)
    [others] = await claim(rows, worker="worker_2")
    before = [await rows.port.get(row.id) for row in (ended, others)]
    clock.advance(1)

    # When the first worker has died, and it is found twice
    assert await rows.port.expire("worker_1") == 1
    assert await rows.port.expire("worker_1") == 0

    # Then a sweep is due and finds its claim, and nothing else has changed
    assert await rows.port.next_sweep_s() == 0
    clock.advance(0.001)
    assert ids(await rows.port.list_expired(limit=10)) == [theirs.id]
    assert [await rows.port.get(row.id) for row in (ended, others)] == before


# ---- the fence ---------------------------------------------------------------------------------


async def test_a_worker_that_lost_its_claim_changes_nothing(
    rows: LeasedRows, clock: ManualClock
) -> None:
    # Given a worker that was taken for dead, and another that has the row
    [lost] = await claim_new(rows, 1)
    [found] = await expire(rows, clock)
    await settled(rows, rows.rescues["rescue"](found))
    [current] = await claim(rows, worker="worker_2")
    late = all_of({**rows.changes, **rows.rescues}, lost)

    # When the first comes back, then nothing is written, and its heartbeat is not heard
    await assert_refused(rows, late)
    assert await rows.port.extend([claim_of(lost)], lease=LEASE) == {}
    # And neither is it after the other has ended the work
    await settled(rows, rows.changes["finish"](current))
    await assert_refused(rows, late)


async def test_a_claim_that_was_given_back_or_ended_is_shut_out_at_once(rows: LeasedRows) -> None:
    released, row = await claim_new(rows, 2)
    await settled(rows, rows.changes["release"](released))
    ended = await settled(rows, rows.changes["finish"](row))

    await assert_refused(rows, all_of(rows.changes, released))
    # The token is the same: it is the state that has changed.
    assert ended.token == row.token
    await assert_refused(rows, all_of({**rows.changes, **rows.rescues}, row))


@pytest.mark.fault(5)
async def test_a_rescue_needs_the_lease_that_was_seen_to_run_out(
    rows: LeasedRows, clock: ManualClock
) -> None:
    # Given a worker that was late, and then one that was wrongly taken for dead
    for seconds in (LEASE.total_seconds() + 1, 0.001):
        [row] = await claim_new(rows, 1)
        if seconds < 1:
            await rows.port.expire("worker_1")
        clock.advance(seconds)
        [found] = await rows.port.list_expired(limit=10)

        # When a late heartbeat comes before the rescue
        assert await rows.port.extend([claim_of(row)], lease=LEASE) == {row.id: row.state}
        assert list(await rows.port.list_expired(limit=10)) == []

        # Then the rescue finds another lease, and the worker ends its work
        await assert_refused(rows, all_of(rows.rescues, found))
        await settled(rows, rows.changes["finish"](row))


async def test_a_change_settled_twice_applies_once(rows: LeasedRows) -> None:
    # Given a row for each change that a worker may make
    claimed = await claim_new(rows, len(rows.changes))
    again = {}
    for row, (name, make) in zip(claimed, rows.changes.items(), strict=True):
        # When it is made
        after = await settled(rows, make(row))
        # A change that leaves the row as it is, such as a request to its worker, may be made again.
        if after.state is not row.state or getattr(after, "steps", 0) != getattr(row, "steps", 0):
            again[name] = make(row)

    # Then it is refused from then on
    await assert_refused(rows, again)


async def test_the_row_and_its_token_must_be_there(rows: LeasedRows) -> None:
    [row] = await claim_new(rows, 1)

    for forged in ({"token": row.token - 1}, {"token": row.token + 1}, {"id": "never"}):
        await assert_refused(rows, all_of(rows.changes, replace(row, **forged)))
    with pytest.raises(NotFound):
        await rows.port.get("never")


# ---- batches -----------------------------------------------------------------------------------


def broken(rows: LeasedRows, row: Any) -> Settlement:
    """A change that no database takes: it leaves the row claimed, without a lease."""
    made = rows.changes["release"](row).change
    return Settlement(replace(made, after=replace(made.after, state=row.state)))


async def test_a_batch_is_one_transaction_and_each_change_has_its_answer(
    sql_rows: LeasedRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given four rows, of which one has been given back
    first, second, third, fourth = await claim_new(sql_rows, 4)
    await settled(sql_rows, sql_rows.changes["release"](second))
    transactions = count_writes(sql_rows.sql.database, monkeypatch)

    # When all are settled together, in no order
    names = {fourth.id: "finish", second.id: "finish", first.id: "release", third.id: "finish"}
    batch = [sql_rows.changes[names[row.id]](row) for row in (fourth, second, first, third)]
    after = await sql_rows.port.settle_many(batch)

    # Then only the lost one is lost; and of nothing is made no transaction
    assert list(await sql_rows.port.settle_many([])) == []
    assert len(transactions) == 1
    assert [row and row.id for row in after] == [fourth.id, None, first.id, third.id]
    for row in after:
        assert row is None or row == await sql_rows.port.get(row.id)


async def test_of_a_batch_all_or_nothing_is_written(sql_rows: LeasedRows) -> None:
    good, bad = await claim_new(sql_rows, 2)
    before = await sql_rows.everything()

    # Of two CHECKs that it breaks, each database names another.
    with pytest.raises(StoreError, match=r"lease|claimable"):
        await sql_rows.port.settle_many([sql_rows.changes["finish"](good), broken(sql_rows, bad)])

    assert await sql_rows.everything() == before


async def test_a_change_that_is_refused_does_not_sink_those_that_came_with_it(
    rows: LeasedRows,
) -> None:
    good, bad = await claim_new(rows, 2)

    answers = await asyncio.gather(
        rows.port.settle(*rows.changes["finish"](good)),
        rows.port.settle(*broken(rows, bad)),
        return_exceptions=True,
    )

    assert answers[0] == await rows.port.get(good.id)
    assert isinstance(answers[1], StoreError)
    assert await rows.port.get(bad.id) == bad


async def test_a_second_change_of_a_row_in_one_batch_meets_the_first(rows: LeasedRows) -> None:
    row, other = await claim_new(rows, 2)

    after = await rows.port.settle_many(
        [
            rows.changes["finish"](row),
            rows.changes["release"](row),
            rows.changes["release"](other),
            rows.changes["finish"](row),
        ]
    )

    assert [row and row.id for row in after] == [row.id, None, other.id, None]
    assert after[0] == await rows.port.get(row.id)


# ---- sweeping ----------------------------------------------------------------------------------


async def test_a_row_is_expired_when_its_lease_is_over(
    rows: LeasedRows, clock: ManualClock
) -> None:
    [row] = await claim_new(rows, 1)

    clock.advance(LEASE.total_seconds() - 1)
    assert list(await rows.port.list_expired(limit=10)) == []
    clock.advance(2)
    assert list(await rows.port.list_expired(limit=10)) == [row]


async def test_the_longest_lost_are_found_first(rows: LeasedRows, clock: ManualClock) -> None:
    # Given three rows whose leases end one after another, the first claimed last
    await rows.add(3)
    leases = {}
    for seconds in (30, 10, 20):
        [row] = await claim(rows, lease=timedelta(seconds=seconds))
        leases[seconds] = row.id

    # When all are over, and the rescuer asks for two
    clock.advance(60)

    # Then it gets the two that were lost first
    assert ids(await rows.port.list_expired(limit=2)) == [leases[10], leases[20]]


async def test_what_nobody_has_does_not_expire(rows: LeasedRows, clock: ManualClock) -> None:
    # Given a row for each change that a worker may make, some of which leave the row to it
    claimed = await claim_new(rows, len(rows.changes))
    made = zip(claimed, rows.changes.values(), strict=True)
    after = [await settled(rows, make(row)) for row, make in made]

    clock.advance(86_400)

    held = [row.id for row in after if row.state in rows.port.kind.machine.claimed]
    assert sorted(ids(await rows.port.list_expired(limit=100))) == held


async def test_of_two_rescuers_that_find_the_same_rows_one_takes_effect(
    rows: LeasedRows, clock: ManualClock
) -> None:
    claimed = await claim_new(rows, 2)
    batch = [rows.rescues["rescue"](row) for row in await expire(rows, clock)]

    first = await rows.port.settle_many(batch)
    second = await rows.port.settle_many(batch)

    assert sorted(row.id for row in first if row) == ids(claimed)
    assert list(second) == [None, None]
    # Each has counted one crash, and waits for another worker
    for row in claimed:
        rescued = await rows.port.get(row.id)
        assert (rescued.token, rescued.crashes) == (row.token + 1, row.crashes + 1)
        assert rescued.state not in rows.port.kind.machine.claimed
        assert rescued.lease_until is None
    assert sorted(ids(await claim(rows, 2))) == ids(claimed)


async def test_more_lost_rows_than_one_batch_are_all_rescued(
    rows: LeasedRows, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescue, "BATCH_MAX", 5)
    await claim_new(rows, 12)
    clock.advance(61)

    changed = await rescue.rescue_expired(rows.port, lambda row: rows.rescues["rescue"](row).change)

    assert changed == 12
    assert await rows.port.next_sweep_s() is None


async def test_the_next_sweep_is_at_the_end_of_the_first_lease(
    rows: LeasedRows, clock: ManualClock
) -> None:
    # Given nothing that is claimed, there is nothing to sweep
    await rows.add(2)
    assert await rows.port.next_sweep_s() is None

    # When two are, then the sweep is due when the first lease ends, and never in the past
    await claim(rows, lease=timedelta(seconds=90))
    await claim(rows, lease=timedelta(seconds=60))
    clock.advance(15)
    assert await rows.port.next_sweep_s() == 45.0
    clock.advance(3600)
    assert await rows.port.next_sweep_s() == 0.0


# ---- what a row may say ------------------------------------------------------------------------


async def test_what_is_claimed_has_a_lease_and_nothing_else_has(sql_rows: LeasedRows) -> None:
    for forge in ("claimed without a lease", "a lease that nobody has"):
        [row] = await claim_new(sql_rows, 1)
        table = sql_rows.sql.table.table
        values: dict[str, Any] = {"lease_until": None}
        if forge == "a lease that nobody has":
            released = await settled(sql_rows, sql_rows.changes["release"](row))
            values = {"lease_until": START, "state": released.state}
        before = await sql_rows.everything()

        statement = update(table).where(table.c.id == row.id).values(values)
        with pytest.raises(StoreError, match="lease"):
            await execute(sql_rows.sql.database, statement)

        assert await sql_rows.everything() == before
