"""Postgres: what is run again, what is told to the caller, and what is never told to anybody."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

import asyncpg
import pytest
from sqlalchemy import Connection, event, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.util.concurrency import await_only

from headgate.base.clock import ManualClock
from headgate.base.errors import HeadgateError, NotFound, StoreError, StoreUnavailable
from headgate.model import change
from headgate.model.job import Lane, Reason
from headgate.model.lease import Claim
from headgate.model.states import JobState
from headgate.ports.signal import SignalHint
from headgate.signals.postgres import PostgresSignal
from headgate.store.sql.engine import postgres
from headgate.store.sql.engine.database import Operation
from headgate.store.sql.engine.postgres import PostgresDatabase
from headgate.store.sql.items.store import SqlItems
from headgate.store.sql.jobs.store import CROWDED_S
from tests import stores
from tests.faults.wire import wire_to
from tests.store_bundles import SqlStores
from tests.stores import LEASE, SOON_S, START, ids, new_job, run_one, settled, shut_one, submit_one

ROOT = Path(__file__).resolve().parents[5]
HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def words_url(postgres_url: str) -> str:
    """A database with one table of words."""

    async def prepare() -> str:
        url = await stores.create_postgres(postgres_url, "headgate_words")
        await stores.execute_on(url, "CREATE TABLE words (word TEXT PRIMARY KEY, times INT)")
        return url

    return stores.run_async(prepare())


@pytest.fixture
async def database(words_url: str) -> AsyncIterator[PostgresDatabase]:
    """An open database with two words in it."""
    fresh = "TRUNCATE words; INSERT INTO words VALUES ('a', 0), ('b', 0)"
    async with stores.in_use(database := PostgresDatabase(words_url, ManualClock(START))):
        await database.write(lambda tx: [tx.execute(text(each)) for each in fresh.split(";")])
        yield database


async def words(database: PostgresDatabase) -> dict[str, int]:
    query = text("SELECT word, times FROM words")
    rows = await database.read(lambda tx: tx.execute(query).all())
    return {row.word: row.times for row in rows}


def count_up(tx: Connection, word: str) -> None:
    tx.execute(text("UPDATE words SET times = times + 1 WHERE word = :word"), {"word": word})


def fail_with(tx: Connection, code: str) -> None:
    """Let Postgres itself raise this error."""
    tx.execute(text(f"DO $$ BEGIN RAISE 'made up' USING ERRCODE = '{code}'; END $$"))


# ---- conflicts ---------------------------------------------------------------------------------


async def test_a_read_waits_for_a_change_of_the_schema(words_url: str) -> None:
    # Given a table that is being changed, and a database that waits for locks for a moment only
    waited = asyncio.Event()

    class Watched(PostgresDatabase):
        async def free_locks(self) -> int:
            waited.set()
            return 0

    database = Watched(words_url, ManualClock(START), lock_s=0.1)
    changing = await asyncpg.connect(words_url)
    try:
        async with changing.transaction():
            await changing.execute("LOCK TABLE words IN ACCESS EXCLUSIVE MODE")

            # When it is read, and the first wait was in vain
            reading = asyncio.create_task(words(database))
            async with asyncio.timeout(SOON_S):
                await waited.wait()

        # Then the read goes on once the change is done
        assert await reading is not None
    finally:
        await changing.close()
        await database.close()


@pytest.mark.fault(28)
async def test_the_victim_of_a_deadlock_is_run_again(database: PostgresDatabase) -> None:
    # Given two writes that lock the same two rows, each in its own order
    both_hold = asyncio.Barrier(2)
    runs: list[str] = []

    def cross(tx: Connection, first: str, second: str) -> None:
        runs.append(first)
        tx.execute(text("SET LOCAL deadlock_timeout = '50ms'"))
        count_up(tx, first)
        if len(runs) <= 2:
            await_only(both_hold.wait())
        count_up(tx, second)

    # When they meet
    async with asyncio.timeout(SOON_S):
        await asyncio.gather(
            database.write(lambda tx: cross(tx, "a", "b")),
            database.write(lambda tx: cross(tx, "b", "a")),
        )

    # Then a victim was run again, whole, perhaps more than once, and each took effect once
    assert len(runs) >= 3
    assert await words(database) == {"a": 2, "b": 2}


@pytest.mark.parametrize("code", ["40001", "40P01"])
@pytest.mark.fault(28)
async def test_a_conflict_is_run_again_until_it_goes_through(
    database: PostgresDatabase, code: str
) -> None:
    # Given a write that loses against others a few times
    runs: list[int] = []

    def lose_at_first(tx: Connection) -> str:
        runs.append(len(runs))
        count_up(tx, "a")
        if len(runs) < postgres.CONFLICT_RETRIES_MAX:
            fail_with(tx, code)
        return "done"

    # When it is run, then it goes through in the end, and took effect once
    assert await database.write(lose_at_first) == "done"
    assert len(runs) == postgres.CONFLICT_RETRIES_MAX
    assert await words(database) == {"a": 1, "b": 0}


def refuse(tx: Connection) -> None:
    raise NotFound("no such word")


@pytest.mark.parametrize(
    ("fails", "error", "said", "times"),
    [
        # A conflict that does not end.
        (
            lambda tx: fail_with(tx, "40001"),
            StoreError,
            "made up",
            postgres.CONFLICT_RETRIES_MAX,
        ),
        (lambda tx: tx.execute(text("SELECT 1 / 0")), StoreError, "division by zero", 1),
        (refuse, NotFound, "no such word", 1),
    ],
    ids=["conflict", "any other", "ours"],
)
async def test_a_write_that_cannot_succeed_is_told_and_undone(
    database: PostgresDatabase,
    fails: Operation[object],
    error: type[HeadgateError],
    said: str,
    times: int,
) -> None:
    runs: list[int] = []

    def write(tx: Connection) -> None:
        runs.append(len(runs))
        count_up(tx, "a")
        fails(tx)

    with pytest.raises(error, match=said) as failed:
        await database.write(write)

    assert (type(failed.value), len(runs)) == (error, times)
    assert await words(database) == {"a": 0, "b": 0}


async def test_a_read_leaves_nothing_behind_even_if_it_writes(database: PostgresDatabase) -> None:
    await database.read(lambda tx: count_up(tx, "a"))

    assert await words(database) == {"a": 0, "b": 0}


# ---- outages -----------------------------------------------------------------------------------


async def backend_of(database: PostgresDatabase) -> int:
    query = text("SELECT pg_backend_pid()")
    return await database.read(lambda tx: int(tx.execute(query).scalar_one()))


@pytest.mark.fault(28)
async def test_a_connection_lost_while_idle_is_told_and_then_replaced(
    database: PostgresDatabase, words_url: str
) -> None:
    # Given a connection in the pool that the server has cut
    pid = await backend_of(database)
    assert await stores.execute_on(words_url, f"SELECT pg_terminate_backend({pid}, 10000)")

    # When something is written
    with pytest.raises(StoreUnavailable):
        await database.write(lambda tx: count_up(tx, "a"))

    # Then the next goes through, on another connection
    await database.write(lambda tx: count_up(tx, "a"))
    assert await words(database) == {"a": 1, "b": 0}
    assert await backend_of(database) != pid


@pytest.mark.fault(28)
async def test_a_connection_lost_in_the_middle_is_told_and_the_write_undone(
    database: PostgresDatabase,
) -> None:
    # Given a write whose connection the server cuts
    def cut(tx: Connection) -> None:
        count_up(tx, "a")
        tx.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    # When it is run
    with pytest.raises(StoreUnavailable):
        await database.write(cut)

    # Then nothing of it is there, and the next write goes through
    assert await words(database) == {"a": 0, "b": 0}
    await database.write(lambda tx: count_up(tx, "b"))
    assert await words(database) == {"a": 0, "b": 1}


@pytest.mark.fault(28)
async def test_a_wire_that_is_dead_at_both_ends_is_given_up_and_replaced(
    database: PostgresDatabase, words_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a connection whose packets vanish from now on, without either end being told
    monkeypatch.setattr(postgres, "STATEMENT_S_MAX", 1)
    server = make_url(words_url)
    assert server.port is not None
    async with wire_to(server.port) as wire:
        url = server.set(host="127.0.0.1", port=wire.port).render_as_string(hide_password=False)
        async with stores.in_use(far := PostgresDatabase(url, ManualClock(START))):
            pid = await backend_of(far)
            wire.is_cut = True

            # When something is written, that is told, and not waited for
            with pytest.raises(StoreUnavailable):
                await far.write(lambda tx: count_up(tx, "a"))

            # Then the next goes through, on a new connection, and the first had no effect
            wire.is_cut = False
            await far.write(lambda tx: count_up(tx, "b"))
            assert await words(database) == {"a": 0, "b": 1}
            assert await backend_of(far) != pid


async def test_a_server_or_a_database_that_is_not_there_is_told_at_opening(
    postgres_url: str, clock: ManualClock
) -> None:
    for url, error, said in (
        ("postgresql://nobody@127.0.0.1:1/nothing", StoreUnavailable, None),
        (f"{postgres_url}_of_nobody", StoreError, "does not exist"),
    ):
        database = PostgresDatabase(url, clock)
        with pytest.raises(error, match=said):
            await database.open()
        await database.close()


@pytest.mark.fault(28)
async def test_a_pool_of_two_runs_two_at_once_and_lets_the_others_wait(words_url: str) -> None:
    # Given a pool of two, and operations that each wait for another to be under way
    database = PostgresDatabase(words_url, ManualClock(START), pool_size=2)
    pair = asyncio.Barrier(2)
    at_once: list[int] = []
    running = 0

    def work(tx: Connection) -> None:
        nonlocal running
        running += 1
        at_once.append(running)
        await_only(pair.wait())
        tx.execute(text("SELECT 1"))
        running -= 1

    # When ten come at the same time
    async with stores.in_use(database), asyncio.timeout(SOON_S):
        await asyncio.gather(*(database.write(work) for _ in range(10)))

    # Then no more than two ever ran at once
    assert max(at_once) == 2


# ---- time --------------------------------------------------------------------------------------


async def test_the_server_judges_time_unless_told_otherwise(words_url: str) -> None:
    # Given two databases whose own clock stands in the past
    async def look_twice(*, server_time: bool) -> tuple[datetime, datetime]:
        database = PostgresDatabase(words_url, ManualClock(START), server_time=server_time)
        moments = [select(database.moment().at(after)) for after in (timedelta(0), HOUR)]
        async with stores.in_use(database):
            now, later = await database.write(
                lambda tx: [tx.execute(each).scalar_one() for each in moments]
            )
        return now, later

    # Then only the one that was told so keeps to it
    assert await look_twice(server_time=False) == (START, START + HOUR)
    now, in_an_hour = await look_twice(server_time=True)
    said = await stores.execute_on(words_url, "SELECT now()")
    assert isinstance(said, datetime)
    assert abs(now - said) < timedelta(minutes=5)
    # And the server's stands still within a transaction
    assert in_an_hour - now == HOUR


@pytest.mark.fault(19)
async def test_a_job_lives_its_whole_life_by_the_servers_clock(
    empty_store: SqlStores, store_url: str
) -> None:
    # Given a store that leaves all time to the server, while this machine's clock is wrong
    store = empty_store

    # When a job is submitted, claimed, kept, put off and claimed again
    sleeper = await submit_one(store, lane=Lane.HOT, delay_s=3600)
    running = await run_one(store)
    began = running.started_at
    assert began is not None
    assert running.lease_until == began + LEASE
    assert await store.jobs.extend([Claim(running.id, running.token)], lease=2 * LEASE)
    put_off = await settled(
        store, change.retry(running, after=HOUR, error="no", recent_errors=(began,))
    )
    claimed = await store.jobs.claim(Lane.HOT, worker="w", limit=1, lease=LEASE)
    limited = change.defer(
        await run_one(store), after=LEASE, reason=Reason.RATE_LIMITED, note="429"
    )
    deferred = await settled(store, limited)
    assert deferred.attempted_at is not None
    assert deferred.wake_at is not None

    # Then every time is the server's, and every wait is counted from it
    said = await stores.execute_on(store_url, "SELECT now()")
    assert isinstance(said, datetime)
    assert abs(began - said) < timedelta(minutes=5)
    assert put_off.wake_at is not None
    assert HOUR <= put_off.wake_at - began < timedelta(hours=1, minutes=5)
    assert put_off == await store.jobs.get(running.id)
    # And a provider that said "after a minute" is not asked a moment sooner
    assert LEASE <= deferred.wake_at - deferred.attempted_at < timedelta(minutes=5)
    assert sleeper.wake_at == sleeper.created_at + HOUR
    assert claimed.next_due_s is not None
    assert 3000 < claimed.next_due_s <= 3600
    # And what the rescuer asks is answered by it too
    shut = await shut_one(store, cooldown_s=0)
    assert ids(await store.breakers.list_thawable(limit=10)) == [shut.id]
    assert await store.breakers.release_provider("roam", stagger=LEASE, limit=10) == 1
    due_s = await store.jobs.next_sweep_s()
    assert due_s is not None
    assert 30 < due_s <= 60
    assert list(await store.jobs.list_expired(limit=10)) == []
    assert await store.events.prune_events(older_than=HOUR, limit=10) == 0
    assert await store.events.prune_events(older_than=timedelta(0), limit=10) > 0


@pytest.fixture
async def empty_store(store_url: str) -> AsyncIterator[SqlStores]:
    """A store that leaves all time to the server."""
    async with stores.opened(PostgresDatabase(store_url, ManualClock(START))) as database:
        yield SqlStores(database, stores.SYNCS)


@pytest.fixture
def sent(empty_store: SqlStores, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The first word of every statement that the store sends, transactions included."""
    sent: list[str] = []
    start = asyncpg.transaction.Transaction.start

    async def start_counted(transaction: asyncpg.transaction.Transaction) -> None:
        sent.append("BEGIN")
        await start(transaction)

    monkeypatch.setattr(asyncpg.transaction.Transaction, "start", start_counted)
    event.listen(
        cast(PostgresDatabase, empty_store.database).sync_engine,
        "before_cursor_execute",
        lambda _, __, statement, *rest: sent.append(statement.split()[0]),
    )
    return sent


async def test_an_idle_sweep_is_four_statements_without_a_transaction(
    empty_store: SqlStores, sent: list[str]
) -> None:
    # What every process asks every forty seconds, also if nothing ever happens.
    assert await empty_store.database.free_locks() == 0
    assert await empty_store.breakers.list_waiting_probes() == []
    assert await empty_store.jobs.next_sweep_s() is None
    assert await SqlItems(empty_store.database).next_sweep_s() is None

    assert sent == ["WITH", "SELECT", "SELECT", "SELECT"]


async def test_submitting_and_claiming_are_one_statement_each_without_a_transaction(
    empty_store: SqlStores, sent: list[str]
) -> None:
    store = empty_store
    # When a job is submitted with its event, and claimed
    job = await submit_one(store)
    assert sent == ["WITH"]
    sent.clear()
    claimed = await store.jobs.claim(Lane.COLD, worker="w", limit=5, lease=LEASE)
    assert (sent, ids(claimed.jobs)) == (["WITH"], [job.id])
    assert await stores.kinds(store, job.id) == ["submitted"]

    # Then settling it is a transaction: all that it writes belongs together
    sent.clear()
    await settled(store, change.release(claimed.jobs[0]))
    assert sent.count("BEGIN") == 1


async def test_a_submit_sends_its_hint_only_if_it_creates_the_job(
    empty_store: SqlStores, store_url: str, sent: list[str]
) -> None:
    # Given somebody who listens
    heard: list[str] = []
    listening = await asyncpg.connect(store_url)
    try:
        await listening.add_listener("told", lambda *note: heard.append(str(note[3])))

        # When a job is submitted twice with a key, and another job after it
        for hint in ("first", "same key"):
            await empty_store.jobs.submit(new_job(job_id=None, key="k"), SignalHint("told", hint))
        await empty_store.jobs.submit(new_job(), SignalHint("told", "last"))

        # Then each job that was created was told of, in its own statement
        await listening.execute("SELECT 1")
        assert heard == ["first", "last"]
        assert sent[0] == sent[-1] == "WITH" and "BEGIN" not in sent
    finally:
        await listening.close()


@pytest.mark.fault(28)
async def test_a_submit_on_a_lost_connection_is_told_and_the_pool_replaced(
    empty_store: SqlStores, store_url: str
) -> None:
    # Given a pool of three connections, all of which the server has cut
    database = empty_store.database
    await asyncio.gather(*[database.read(_sleep_a_moment) for _ in range(3)])
    await stores.execute_on(
        store_url,
        # Counted, because the one value that is asked for would end one session alone.
        "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity"
        " WHERE application_name = 'headgate' AND datname = current_database()",
    )

    # When jobs are submitted
    lost = 0
    for _ in range(6):
        try:
            await submit_one(empty_store)
        except StoreUnavailable:
            lost += 1

    # Then one is told, and all later ones go through
    assert lost == 1


def _sleep_a_moment(tx: Connection) -> None:
    tx.execute(text("SELECT pg_sleep(0.05)"))


async def test_one_operation_after_another_uses_the_same_connection(
    database: PostgresDatabase,
) -> None:
    # Given a pool of three connections
    await asyncio.gather(*[database.read(_sleep_a_moment) for _ in range(3)])

    # When one operation follows another, as of a worker that waits for each claim
    query = text("SELECT pg_backend_pid()")
    used = {await database.autocommit(lambda tx: tx.execute(query).scalar_one()) for _ in range(10)}

    # Then all of them are planned on one connection
    assert len(used) == 1


async def test_the_guide_names_all_settings_that_a_pooler_has_to_ignore(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given what each of our connections asks for
    asked: set[str] = set()

    async def refuse(*_: object, server_settings: dict[str, str], **__: object) -> None:
        asked.update(server_settings)
        raise OSError("not today")

    monkeypatch.setattr(asyncpg, "connect", refuse)
    with pytest.raises(StoreUnavailable):
        await PostgresDatabase("postgresql://nowhere/words", ManualClock(START)).open()
    signal = PostgresSignal("postgresql://nowhere/words", ManualClock(START), origin="here")
    with pytest.raises(OSError, match="not today"):
        await signal.start()

    # Then the guide tells PgBouncer to ignore them; it knows application_name
    guide = (ROOT / "docs/how-to/production.md").read_text("utf-8")
    found = re.search(r"ignore_startup_parameters = ([^`]+)`", guide)
    assert found is not None
    assert set(re.split(r",\s+", found[1])) == asked - {"application_name"}


async def test_waking_sleepers_is_part_of_the_claim(
    empty_store: SqlStores, sent: list[str]
) -> None:
    # Given one job in line, and two of another user that have come due
    store = empty_store
    waiting = await submit_one(store)
    sleepers = [await submit_one(store, user_id="user_2", delay_s=0.001) for _ in range(2)]
    sent.clear()

    # When there is room for two
    claimed = await store.jobs.claim(Lane.COLD, worker="w", limit=2, lease=LEASE)

    # Then users take turns, and the last sleeper has its turn, all by one statement
    assert sent == ["WITH"]
    assert sorted(ids(claimed.jobs)) == sorted([waiting.id, sleepers[0].id])
    last = await store.jobs.get(sleepers[1].id)
    assert (last.state, last.turn) == (JobState.PENDING, 3)
    rest = await store.jobs.claim(Lane.COLD, worker="w", limit=2, lease=LEASE)
    assert (ids(rest.jobs), rest.next_due_s) == ([last.id], None)


async def test_who_finds_the_line_locked_by_another_claim_looks_again_soon(
    empty_store: SqlStores, store_url: str
) -> None:
    # Given a job in line that somebody else has just locked, and may leave
    store = empty_store
    other = await asyncpg.connect(store_url)
    try:
        job = await submit_one(store)
        async with other.transaction():
            await other.execute("SELECT id FROM headgate_jobs FOR UPDATE")
            hidden = await store.jobs.claim(Lane.COLD, worker="w", limit=5, lease=LEASE)
        assert (hidden.jobs, hidden.next_due_s) == ([], CROWDED_S)

        # Then it is there with the next look, and after that nothing is
        seen = await store.jobs.claim(Lane.COLD, worker="w", limit=5, lease=LEASE)
        assert (ids(seen.jobs), seen.next_due_s) == ([job.id], None)
        assert (
            await store.jobs.claim(Lane.COLD, worker="w", limit=5, lease=LEASE)
        ).next_due_s is None
    finally:
        await other.close()
