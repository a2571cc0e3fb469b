"""Notifications are written with the change that they tell of, once, whoever else writes."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import msgspec
from sqlalchemy import delete, select

from headgate.base.clock import ManualClock
from headgate.flow.notifications.service import Composer
from headgate.model import change
from headgate.model.change import JobChange
from headgate.model.job import Job, Lane, Reason
from headgate.model.notification import Notification
from headgate.model.states import Trouble
from headgate.policy.notifications import NotificationRules
from headgate.ports.outbox import NewMessage
from headgate.store.sql.engine.database import Database
from headgate.store.sql.people import users
from headgate.store.sql.tables import deliveries, jobs, messages, troubles
from tests import stores
from tests.conformance.databases import others, shared_fixture
from tests.notifying import BY_EMAIL, BY_WEBHOOK
from tests.store_bundles import SqlStores
from tests.stores import SYNCS

LONG = timedelta(hours=24)
ROUNDS = 8


class Distinct(Composer):
    """Gives every message an id of its own, as if no two processes had the same time.

    Else two that tell the same at the same moment would write one message, lock or no lock.
    """

    _numbers = itertools.count(1)

    def compose(self, *args: Any, **given: Any) -> NewMessage | None:
        new = super().compose(*args, **given)
        number = f"{next(self._numbers):08d}"
        return new and msgspec.structs.replace(new, id=f"m_{number}", key=number)


def notifying(database: Database) -> SqlStores:
    """A store whose application notifies by a webhook."""
    return SqlStores(database, SYNCS, Distinct(BY_WEBHOOK, {}))


@shared_fixture()
async def several(
    database: Database, make_database: stores.MakeDatabase
) -> AsyncIterator[Sequence[SqlStores]]:
    """The stores of three processes on one database, which is empty."""
    async with others(make_database, 2) as elsewhere:
        yield [notifying(each) for each in (database, *elsewhere)]


async def told(store: SqlStores) -> list[str]:
    """The kinds of all notifications, in the order of their ids."""
    query = select(messages.c.payload).order_by(messages.c.created_at, messages.c.id)
    payloads = await store.database.read(lambda tx: list(tx.execute(query).scalars()))
    found = [msgspec.json.decode(each, type=Notification) for each in payloads]
    return [each.type.removeprefix("job.") for each in found]


async def rows(store: SqlStores) -> list[tuple[str, str, Trouble | None]]:
    """What is stored about connections and their syncs."""
    query = select(troubles.c.connection_id, troubles.c.sync, troubles.c.trouble)
    ordered = query.order_by(troubles.c.connection_id, troubles.c.sync)
    return await store.database.read(lambda tx: [tuple(row) for row in tx.execute(ordered)])


async def run_both(store: SqlStores, connection_id: str) -> list[Job]:
    """A running job of each of the connection's two syncs."""
    return [
        await stores.run_one(store, connection_id=connection_id, sync=sync, lane=lane)
        for sync, lane in zip(SYNCS, Lane, strict=True)
    ]


def fail(job: Job) -> JobChange:
    return change.fail(job, reason=Reason.REFUSED, error="no")


def lose_access(job: Job) -> JobChange:
    return change.fail(job, reason=Reason.NEEDS_REAUTH, error="AuthExpired: no")


async def test_a_notification_and_its_delivery_are_there_with_the_change(
    database: Database,
) -> None:
    store = notifying(database)
    job = await stores.run_one(store, connection_id="c")
    await stores.settled(store, fail(job))

    assert await told(store) == ["failed"]
    assert await rows(store) == [("c", "notes", Trouble.FAILED)]
    query = select(deliveries.c.target, deliveries.c.run_id, deliveries.c.user_id)
    found = await database.read(lambda tx: tx.execute(query).all())
    assert [tuple(row) for row in found] == [("notify.webhook", job.id, "user_1")]


async def test_a_change_that_lost_its_race_tells_nothing(database: Database) -> None:
    store = notifying(database)
    job = await stores.run_one(store)
    await stores.settled(store, change.release(job))

    assert await store.jobs.settle(fail(job)) is None
    assert await told(store) == []
    assert await rows(store) == []


async def test_a_success_leaves_no_row(database: Database, clock: ManualClock) -> None:
    store = notifying(database)
    for made in (fail, lambda job: change.succeed(job, stores.tally(), {})):
        clock.advance(1)
        await stores.settled(store, made(await stores.run_one(store, connection_id="c")))
    assert await told(store) == ["failed", "recovered"]
    assert await rows(store) == []


async def test_of_two_syncs_in_one_batch_one_tells_that_the_connection_is_lost(
    database: Database,
) -> None:
    store = notifying(database)
    claimed = await run_both(store, "c")
    await store.jobs.settle_many([(lose_access(job), None) for job in claimed])

    assert await told(store) == ["needs_reauth"]
    assert await rows(store) == [("c", "", Trouble.NEEDS_REAUTH)]


async def test_of_several_processes_one_tells_that_the_connection_is_lost(
    several: Sequence[SqlStores],
) -> None:
    first, second, _ = several
    for number in range(ROUNDS):
        connection_id = f"c-{number}"
        claimed = await run_both(first, connection_id)
        settled = await asyncio.gather(
            first.jobs.settle(lose_access(claimed[0])), second.jobs.settle(lose_access(claimed[1]))
        )
        assert None not in settled
    assert await told(first) == ["needs_reauth"] * ROUNDS


async def test_of_several_processes_one_tells_that_a_trouble_is_over(
    several: Sequence[SqlStores],
) -> None:
    first, second, _ = several
    for number in range(ROUNDS):
        connection_id = f"c-{number}"
        lost = await stores.run_one(first, connection_id=connection_id)
        await stores.settled(first, lose_access(lost))
        both = await run_both(first, connection_id)
        await asyncio.gather(
            *(
                store.jobs.settle(change.succeed(job, stores.tally(), {}))
                for store, job in zip((first, second), both, strict=True)
            )
        )
    kinds = await told(first)
    assert (kinds.count("needs_reauth"), kinds.count("recovered")) == (ROUNDS, ROUNDS)


async def test_a_trouble_may_end_and_begin_at_the_same_moment(several: Sequence[SqlStores]) -> None:
    first, second, _ = several
    for number in range(ROUNDS):
        connection_id = f"c-{number}"
        lost = await stores.run_one(first, connection_id=connection_id)
        await stores.settled(first, lose_access(lost))
        one, other = await run_both(first, connection_id)
        ended = change.succeed(other, stores.tally(), {})
        assert None not in await asyncio.gather(
            first.jobs.settle(lose_access(one)), second.jobs.settle(ended)
        )
    # Either it was lost again before it had recovered, or it is news that it is lost again.
    kinds = await told(first)
    assert kinds.count("recovered") == ROUNDS
    again = [row for row in await rows(first) if row[2] is Trouble.NEEDS_REAUTH]
    assert kinds.count("needs_reauth") == ROUNDS + len(again)


# ---- long pauses -------------------------------------------------------------------------------


async def test_of_several_processes_one_tells_of_a_long_pause(
    several: Sequence[SqlStores], clock: ManualClock
) -> None:
    first = several[0]
    for _ in range(5):
        await stores.shut_one(first)
    clock.advance(LONG.total_seconds() - 1)
    assert await first.notifications.tell_paused(limit=10) == 0

    clock.advance(1)
    await asyncio.gather(*(each.notifications.tell_paused(limit=10) for each in several))
    assert await told(first) == ["paused"] * 5
    assert await first.notifications.tell_paused(limit=10) == 0


async def test_long_pauses_of_another_application_are_left_to_it(
    database: Database, clock: ManualClock
) -> None:
    store = notifying(database)
    await stores.shut_one(store)
    clock.advance(LONG.total_seconds())
    stranger = SqlStores(database, ["strange"], Composer(BY_WEBHOOK, {}))
    assert await stranger.notifications.tell_paused(limit=10) == 0
    assert await store.notifications.tell_paused(limit=10) == 1


async def test_a_job_that_was_deleted_by_hand_is_forgotten(
    database: Database, clock: ManualClock
) -> None:
    store = notifying(database)
    await stores.shut_one(store)
    await database.write(lambda tx: tx.execute(delete(jobs)))
    clock.advance(LONG.total_seconds())
    assert await store.notifications.tell_paused(limit=10) == 1
    assert (await told(store), await rows(store)) == ([], [])


# ---- users -------------------------------------------------------------------------------------


async def test_preferences_are_read_in_the_same_transaction(database: Database) -> None:
    store = SqlStores(database, SYNCS, Composer(BY_EMAIL, {}))
    now = database.moment

    async def prefer(user_id: str, **given: object) -> None:
        await database.write(lambda tx: users.set_preferences(tx, now(), user_id, given))

    await prefer("ada", email="ada@example.com")
    await prefer("bob", email="bob@example.com", notify=False)
    for user_id in ("ada", "bob", "eve"):
        job = await stores.run_one(store, user_id=user_id)
        await stores.settled(store, lose_access(job))

    query = select(deliveries.c.user_id, deliveries.c.target)
    found = await database.read(lambda tx: [tuple(row) for row in tx.execute(query)])
    assert found == [("ada", "notify.email")]


# ---- what it costs -----------------------------------------------------------------------------


async def test_an_application_that_notifies_nobody_writes_nothing(
    database: Database, clock: ManualClock
) -> None:
    store = SqlStores(database, SYNCS)
    await stores.settled(store, fail(await stores.run_one(store)))
    await stores.shut_one(store)
    clock.advance(LONG.total_seconds())
    assert await store.notifications.tell_paused(limit=10) == 0
    assert (await told(store), await rows(store)) == ([], [])


def test_a_day_is_the_default() -> None:
    assert NotificationRules().paused_after == LONG
