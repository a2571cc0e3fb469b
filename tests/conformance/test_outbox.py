"""The store of the outbox on both databases: claiming, draining, and who sees what.

How messages are enqueued is in `test_outbox_enqueue.py`, purging and replaying in
`test_outbox_purge.py`, and what all leased types do in `test_leases.py`.
"""

import asyncio
from datetime import timedelta
from functools import partial
from random import Random

import psycopg
import pytest
from sqlalchemy import Connection, Update, update

from headgate.base.clock import ManualClock, SystemClock
from headgate.base.errors import NotFound, StoreUnavailable
from headgate.flow.outbox.drain import Drainer
from headgate.flow.outbox.targets import Targets
from headgate.model import delivery as change
from headgate.model.delivery import Delivery
from headgate.model.states import DeliveryState
from headgate.model.target import Topic
from headgate.ports.outbox import DeliveryFilter
from headgate.store.sql.outbox.store import SqlOutbox
from headgate.store.sql.outbox.writer import SqlOutboxWriter
from headgate.store.sql.tables import deliveries
from tests import stores
from tests.conformance.databases import on_postgres, others
from tests.conformance.outboxes import (
    TOPIC,
    TOPICS,
    YEARS_S,
    all_deliveries,
    claim,
    filled,
    ids,
    new_message,
    send,
)
from tests.outboxes import LOCAL, FaultyOutbox, ScriptedSender
from tests.stores import LEASE, START

# ---- claiming ----------------------------------------------------------------------------------


async def test_the_one_that_has_waited_longest_is_claimed_first(outbox: SqlOutbox) -> None:
    # Given messages that became due in no order of their ids
    late, early, middle = await filled(outbox, 3)
    for each, minutes in ((late, 1), (early, 3), (middle, 2)):
        due = START - timedelta(minutes=minutes)
        statement = update(deliveries).where(deliveries.c.message_id == each.id)
        await outbox.database.write(partial(execute, statement.values(next_attempt_at=due)))

    claimed = [(await claim(outbox, limit=1))[0].message.id for _ in range(3)]

    assert claimed == ids([early, middle, late])


def execute(statement: Update, tx: Connection) -> None:
    tx.execute(statement)


async def test_a_claim_brings_the_messages_in_their_order(outbox: SqlOutbox) -> None:
    new = await filled(outbox, 5, run_id="run_1", user_id="user_1")

    claimed = await claim(outbox)

    assert [each.message.id for each in claimed] == ids(new)
    for each, wanted in zip(claimed, new, strict=True):
        assert each.message.payload == wanted.payload
        assert each.message.intact
        assert (each.delivery.run_id, each.delivery.user_id) == ("run_1", "user_1")


async def test_a_claim_is_of_one_target_and_of_known_topics(outbox: SqlOutbox) -> None:
    [both] = await filled(outbox, 1, targets=["local", "staging"])
    [other] = await filled(outbox, 1, topic="prices")

    assert [each.message.id for each in await claim(outbox)] == [both.id]
    assert [each.message.id for each in await claim(outbox, "staging")] == [both.id]
    assert await claim(outbox, "production") == []
    assert [each.message.id for each in await claim(outbox, topics=["prices"])] == [other.id]


async def test_a_claim_may_name_a_run_or_a_message(outbox: SqlOutbox) -> None:
    await filled(outbox, 3)
    mine = await filled(outbox, 2, run_id="run_1")

    [one] = await claim(outbox, message_id=mine[0].id)
    [rest] = await claim(outbox, run_id="run_1")

    assert [one.message.id, rest.message.id] == ids(mine)
    assert await claim(outbox, run_id="run_1") == []
    assert len(await claim(outbox)) == 3


async def test_what_failed_is_due_again_after_its_wait(
    outbox: SqlOutbox, clock: ManualClock
) -> None:
    await filled(outbox, 1)
    assert await outbox.next_due_s("local", TOPICS) == 0.0
    [taken] = await claim(outbox)
    assert await outbox.next_due_s("local", TOPICS) is None
    await outbox.settle(change.fail(taken.delivery, error="503", after=timedelta(seconds=10)))

    assert await outbox.next_due_s("local", TOPICS) == 10.0
    assert await outbox.next_due_s("staging", TOPICS) is None
    assert await outbox.next_due_s("local", ["prices"]) is None
    clock.advance(9)
    assert await claim(outbox) == []
    clock.advance(1)
    [again] = await claim(outbox)
    assert (again.delivery.attempts, again.delivery.error) == (1, "503")


async def test_many_that_claim_at_once_share_nothing_and_leave_nothing(
    make_database: stores.MakeDatabase, outbox: SqlOutbox, clock: ManualClock
) -> None:
    # Given two processes, and many messages
    new = await filled(outbox, 500)
    async with others(make_database) as [other_database]:
        other = SqlOutbox(other_database, clock)

        # When four workers of each claim until nothing is left
        async def work(of: SqlOutbox, worker: str) -> list[str]:
            found: list[str] = []
            while claimed := await claim(of, limit=20, worker=worker):
                found += [each.message.id for each in claimed]
            return found

        shares = await asyncio.gather(
            *(work(of, f"worker_{n}") for n, of in enumerate([outbox, other] * 4))
        )
    # On Postgres a worker may end early, because the others had locked what it saw.
    shares.append([each.message.id for each in await claim(outbox, limit=500)])

    # Then each has got what no other has
    assert sorted(each for share in shares for each in share) == ids(new)
    assert {each.token for each in await all_deliveries(outbox)} == {1}
    assert sum(bool(share) for share in shares) > 1


@on_postgres
async def test_a_transaction_that_commits_late_is_not_skipped(
    outbox: SqlOutbox, store_url: str, clock: ManualClock
) -> None:
    # Given a transaction that began first and is slow
    early, late = new_message(), new_message()
    writer = SqlOutboxWriter(clock)
    with psycopg.connect(store_url) as slow, psycopg.connect(store_url) as quick:
        writer.enqueue(slow, early, wake=False)
        # When a later one is committed and sent before it
        writer.enqueue(quick, late, wake=False)
        quick.commit()
        clock.advance(YEARS_S)
        assert [each.message_id for each in await send(outbox)] == [late.id]
        slow.commit()

        # Then the first is found all the same
        assert [each.message_id for each in await send(outbox)] == [early.id]


# ---- draining ----------------------------------------------------------------------------------


def drainer_of(outbox: SqlOutbox | FaultyOutbox, sender: ScriptedSender) -> Drainer:
    return Drainer(
        store=outbox,
        sender=sender,
        targets=Targets([Topic(name=TOPIC, path="/v1/orders")], [LOCAL]),
        # The store's time is its own.
        clock=SystemClock(),
        rng=Random(1),
        worker="worker_2",
        lease=LEASE,
    )


async def test_the_next_drain_takes_what_a_lost_worker_was_sending(
    outbox: SqlOutbox, clock: ManualClock
) -> None:
    # Given a worker that was lost with what it had claimed
    new = await filled(outbox, 3)
    lost = await claim(outbox)
    sender = ScriptedSender(SystemClock())
    drainer = drainer_of(outbox, sender)
    assert (await drainer.drain(LOCAL)).processed == 0

    # When its leases are over, then the next drain sends it, and nobody else had to sweep
    clock.advance(LEASE.total_seconds() + 1)
    result = await drainer.drain(LOCAL)

    assert (result.sent, result.processed) == (3, 3)
    assert sorted(sender.keys) == ids(new)
    for each in await all_deliveries(outbox):
        assert (each.state, each.crashes, each.attempts) == (DeliveryState.SENT, 1, 1)
    # And the lost worker can change nothing any more
    late = await outbox.settle_many(
        [(change.fail(each.delivery, error="x", after=LEASE), None) for each in lost]
    )
    assert late == [None, None, None]


@pytest.mark.fault(6)
async def test_what_was_settled_without_an_answer_counts_as_sent(outbox: SqlOutbox) -> None:
    await filled(outbox, 3)
    forgetful = FaultyOutbox(outbox)
    forgetful.error = StoreUnavailable("the answer was lost")
    forgetful.fail_after["settle_many"] = 1
    drainer = drainer_of(forgetful, ScriptedSender(SystemClock()))

    result = await drainer.drain(LOCAL)

    assert forgetful.fail_after["settle_many"] == 0
    assert (result.sent, result.processed) == (3, 3)
    assert len(drainer.claims) == 0


# ---- reading -----------------------------------------------------------------------------------


async def test_a_user_sees_only_what_is_theirs(outbox: SqlOutbox) -> None:
    [mine] = await filled(outbox, 1, user_id="user_1")
    [nobodys] = await filled(outbox, 1)
    delivery_id = f"{mine.id}.local"

    assert (await outbox.get(delivery_id, user_id="user_1")).message_id == mine.id
    assert (await outbox.get_message(mine.id, user_id="user_1")).id == mine.id
    for stranger in ("user_2", ""):
        with pytest.raises(NotFound):
            await outbox.get(delivery_id, user_id=stranger)
        with pytest.raises(NotFound):
            await outbox.get_message(mine.id, user_id=stranger)
    with pytest.raises(NotFound):
        await outbox.get_message(nobodys.id, user_id="user_1")
    found = await outbox.list_deliveries(DeliveryFilter(user_id="user_1"), limit=10)
    assert [each.id for each in found] == [delivery_id]
    # An operator sees all
    assert (await outbox.get_message(nobodys.id)).id == nobodys.id


async def test_deliveries_are_listed_and_counted_by_what_is_asked(outbox: SqlOutbox) -> None:
    new = await filled(outbox, 4, targets=["local", "staging"], run_id="run_1")
    await filled(outbox, 2)
    await send(outbox, limit=3)

    async def found(limit: int = 100, after: str | None = None, **fields: object) -> list[Delivery]:
        which = DeliveryFilter(**fields)  # type: ignore[arg-type]
        return list(await outbox.list_deliveries(which, limit=limit, after=after))

    assert len(await found()) == 10
    assert len(await found(run_id="run_1", target="staging")) == 4
    assert len(await found(states=(DeliveryState.SENT,))) == 3
    assert len(await found(message_id=new[0].id)) == 2
    # Page by page, in the order of their ids
    first = await found(limit=6)
    rest = await found(after=first[-1].id)
    assert [*first, *rest] == sorted(await found(), key=lambda each: each.id)
    counts = await outbox.count_deliveries(DeliveryFilter())
    assert counts["local"][DeliveryState.SENT] == 3
    assert counts["local"][DeliveryState.PENDING] == 3
    assert counts["staging"] == dict.fromkeys(DeliveryState, 0) | {DeliveryState.PENDING: 4}


async def test_a_stopped_target_keeps_its_first_reason_until_it_is_resumed(
    outbox: SqlOutbox,
) -> None:
    await outbox.stop_target("local", "401")
    await outbox.stop_target("local", "403")

    stops = await outbox.stopped_targets()
    assert [(each.target, each.reason) for each in stops.values()] == [("local", "401")]
    assert await outbox.resume_target("local") is True
    assert await outbox.resume_target("local") is False
    assert await outbox.stopped_targets() == {}
