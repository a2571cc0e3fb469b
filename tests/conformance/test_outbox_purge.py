"""Purging of what all targets have, and replaying of old messages to a new target."""

import asyncio
from datetime import timedelta
from functools import partial

import psycopg
from msgspec.structs import replace

from headgate.base.clock import ManualClock
from headgate.model import delivery as change
from headgate.ports.outbox import NewMessage
from headgate.store.sql.outbox.store import SqlOutbox
from headgate.store.sql.outbox.writer import SqlOutboxWriter
from tests import stores
from tests.conformance.databases import on_postgres
from tests.conformance.outboxes import (
    TOPICS,
    YEARS_S,
    add,
    all_deliveries,
    claim,
    filled,
    ids,
    new_message,
    send,
)
from tests.stores import START

WEEK = timedelta(days=7)

# ---- purging -----------------------------------------------------------------------------------


async def test_a_purge_takes_what_all_targets_have_and_is_bounded(
    outbox: SqlOutbox, clock: ManualClock
) -> None:
    # Given ten messages that all their targets have, and one each that waits, failed, is dead, or
    # is still on its way to the second of its targets
    await filled(outbox, 10, targets=["local", "staging"])
    await send(outbox)
    await send(outbox, "staging")
    waiting, failed, dead, half = kept = await filled(outbox, 4)
    await add(outbox, [new_message_for(half, "staging")], at=START)
    taken = {each.message.id: each.delivery for each in await claim(outbox)}
    await outbox.settle_many(
        [
            (change.release(taken[waiting.id]), None),
            (change.fail(taken[failed.id], error="x", after=WEEK), None),
            (change.reject(taken[dead.id], error="x"), None),
            (change.succeed(taken[half.id]), None),
        ]
    )

    # Then nothing is purged before its time
    assert await outbox.purge_sent(older_than=WEEK, limit=100) == 0

    # When a week is over, then they go in batches, and the others stay
    clock.advance(WEEK.total_seconds() + 1)
    purged = []
    while some := await outbox.purge_sent(older_than=WEEK, limit=4):
        purged.append(some)
    assert sum(purged) == 10
    assert max(purged) <= 4
    left = await all_deliveries(outbox)
    assert {each.message_id for each in left} == set(ids(kept))
    assert len(left) == 5
    for each in kept:
        assert (await outbox.get_message(each.id)).id == each.id


def new_message_for(message: NewMessage, target: str) -> NewMessage:
    """The same message to another target."""
    return replace(message, id="unused", targets=[target])


async def test_what_was_sent_lately_to_one_target_is_kept_for_all(
    outbox: SqlOutbox, clock: ManualClock
) -> None:
    await filled(outbox, 1, targets=["local", "staging"])
    await send(outbox)
    clock.advance(WEEK.total_seconds() + 1)
    await send(outbox, "staging")

    assert await outbox.purge_sent(older_than=WEEK, limit=100) == 0


@on_postgres
async def test_a_purge_leaves_what_is_being_enqueued_again(
    outbox: SqlOutbox, store_url: str, clock: ManualClock
) -> None:
    # Given an old message, and a transaction that sends it to another target
    [old] = await filled(outbox, 1)
    await send(outbox)
    clock.advance(WEEK.total_seconds() + 1)
    with psycopg.connect(store_url) as caller:
        again = SqlOutboxWriter(clock).enqueue(caller, new_message_for(old, "staging"), wake=False)
        # When it is purged before that is committed
        assert await outbox.purge_sent(older_than=WEEK, limit=100) == 0
        caller.commit()
    assert again == old.id

    # Then the message is there with both deliveries, and can be claimed
    clock.advance(YEARS_S)
    [claimed] = await claim(outbox, "staging")
    assert claimed.message.id == old.id
    assert await outbox.purge_sent(older_than=WEEK, limit=100) == 0


async def rejected(outbox: SqlOutbox, target: str = "local") -> None:
    """Claim what is due, and settle it as dead."""
    taken = await claim(outbox, target)
    await outbox.settle_many([(change.reject(each.delivery, error="x"), None) for each in taken])


async def test_a_purge_of_dead_ones_takes_what_has_ended_everywhere_and_is_bounded(
    outbox: SqlOutbox, clock: ManualClock
) -> None:
    # Given messages that a target rejected, some of which another target has, or waits for
    gone = await filled(outbox, 5)
    half = await filled(outbox, 3, targets=["local", "staging"])
    await rejected(outbox)
    await send(outbox, "staging")
    [waiting] = await filled(outbox, 1, targets=["local", "staging"])
    await rejected(outbox)
    [elsewhere] = await filled(outbox, 1, targets=["staging"])
    await rejected(outbox, "staging")
    [sent] = await filled(outbox, 1)
    await send(outbox)
    await add(outbox, [new_message_for(waiting, "production")], at=START)
    count = partial(outbox.count_dead, older_than=WEEK)
    purge = partial(outbox.purge_dead, older_than=WEEK)

    # Then nothing is purged before its time, and what was rejected lately stays
    assert await count(["local", "staging"]) == await purge(["local"], limit=100) == 0
    clock.advance(WEEK.total_seconds() + 1)
    [lately] = await filled(outbox, 1)
    await rejected(outbox)

    # When a week is over, those of the named targets go in batches
    assert await count(["local"]) == 8
    purged = []
    while some := await purge(["local"], limit=3):
        purged.append(some)
    assert (sum(purged), max(purged)) == (8, 3)
    left = {each.message_id for each in await all_deliveries(outbox)}
    assert left == {waiting.id, elsewhere.id, sent.id, lately.id}
    assert not left & set(ids([*gone, *half]))
    # And those of another when it is named
    assert await count(["local", "staging"]) == 1
    assert await purge(["local", "staging"], limit=100) == 1
    assert await purge([], limit=100) == await count([]) == 0


async def test_a_message_that_two_targets_rejected_is_counted_and_purged_once(
    outbox: SqlOutbox, clock: ManualClock
) -> None:
    await filled(outbox, 2, targets=["local", "staging"])
    await rejected(outbox)
    await rejected(outbox, "staging")
    clock.advance(1)

    both = ["local", "staging"]
    assert await outbox.count_dead(both, older_than=timedelta(0)) == 2
    assert await outbox.purge_dead(both, older_than=timedelta(0), limit=100) == 2
    assert await all_deliveries(outbox) == []


@on_postgres
async def test_a_purge_leaves_a_dead_one_that_is_being_retried(
    outbox: SqlOutbox, store_url: str, clock: ManualClock
) -> None:
    # Given an operator whose retry is not committed yet
    await filled(outbox, 1)
    await rejected(outbox)
    clock.advance(WEEK.total_seconds() + 1)
    with psycopg.connect(store_url) as operator:
        operator.execute(
            "UPDATE headgate_deliveries SET state = 'pending', next_attempt_at = now()"
        )
        # When another purges at the same moment
        purging = asyncio.create_task(outbox.purge_dead(["local"], older_than=WEEK, limit=100))
        await stores.until_one_waits(store_url)
        operator.commit()

        # Then the message is kept
        assert await purging == 0
    assert [each.state.value for each in await all_deliveries(outbox)] == ["pending"]


# ---- replaying ---------------------------------------------------------------------------------


async def test_a_replay_adds_one_delivery_however_often_it_is_made(
    outbox: SqlOutbox, clock: ManualClock
) -> None:
    # Given messages of two topics, some of them old, one already on its way to the new target
    await filled(outbox, 2, topic="prices")
    old = [new_message() for _ in range(2)]
    await add(outbox, old, at=START)
    clock.advance(3600)
    since = START + timedelta(minutes=30)
    recent = [new_message(run_id="run_1", user_id="user_1") for _ in range(5)]
    # One of them has gone nowhere yet: no target was configured when it was enqueued
    recent.append(new_message(user_id="user_1", targets=()))
    there = new_message(targets=["local", "staging"])
    await add(outbox, [*recent, there], at=START + timedelta(hours=1))
    assert await outbox.count_replayable(TOPICS, "staging", since) == 6

    # When those since then are replayed to it, in batches, by two at once, and again
    async def replay() -> int:
        done = 0
        while added := await outbox.replay(TOPICS, "staging", since, limit=2):
            done += added
        return done

    await asyncio.gather(replay(), replay())
    assert await replay() == 0
    assert await outbox.count_replayable(TOPICS, "staging", since) == 0

    # Then each has one delivery there, due at once
    claimed = await claim(outbox, "staging")
    assert [each.message.id for each in claimed] == [*ids(recent), there.id]
    assert {each.delivery.user_id for each in claimed[:6]} == {"user_1"}
    # And what was sent is not sent again by another replay
    await outbox.settle_many([(change.succeed(each.delivery), None) for each in claimed])
    assert await replay() == 0
    assert await claim(outbox, "staging") == []
