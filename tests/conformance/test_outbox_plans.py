"""Plans: among many deliveries, what the outbox asks often is still answered from an index.

The statements are those that the store sends, caught on their way and given to EXPLAIN.
"""

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection

from headgate.base.clock import ManualClock
from headgate.model import delivery as change
from headgate.model.lease import Claim
from headgate.model.states import DeliveryState
from headgate.ports.outbox import DeliveryFilter
from headgate.store.sql.outbox.store import SqlOutbox
from tests.conformance.crowds import fill_by
from tests.conformance.outboxes import TOPICS, claim, new_message
from tests.conformance.query_plans import Ask, Crowd, check_generic_plans, check_plans, plan
from tests.stores import LEASE, START

ROWS = 20_000
#: A message a second.
_MESSAGES = """
    INSERT INTO headgate_messages (
        id, topic, key, payload, payload_hash, run_id, user_id, created_at
    )
    SELECT 'filled_' || n, 'orders', 'key_' || n, '{{}}', 'hash', 'run_' || (n / 100),
        'user_' || (n % 997), {later}
    FROM {numbers}
"""
#: Of a thousand deliveries to either target twenty wait and ten have failed, five are being sent,
#: five are dead; all others are sent.
_DELIVERIES = """
    INSERT INTO headgate_deliveries (
        id, message_id, topic, target, run_id, user_id, state, attempts, crashes, next_attempt_at,
        sent_at, token, lease_until, created_at, updated_at
    )
    SELECT 'filled_' || n || '.{{target}}', 'filled_' || n, 'orders', '{{target}}',
        'run_' || (n / 100), 'user_' || (n % 997), state, 0, 0,
        CASE WHEN state IN ('pending', 'failed') THEN {later} END,
        CASE WHEN state = 'sent' THEN {later} END, 1,
        CASE WHEN state = 'sending' THEN {later} END, {later}, {later}
    FROM (
        SELECT n, CASE WHEN n % 1000 < 20 THEN 'pending' WHEN n % 1000 < 30 THEN 'failed'
            WHEN n % 1000 < 35 THEN 'sending' WHEN n % 1000 < 40 THEN 'dead' ELSE 'sent'
            END AS state
        FROM {numbers}
    ) AS numbered
"""


def fill(tx: Connection) -> None:
    """Many messages, each to two targets."""
    to = [_DELIVERIES.replace("{{target}}", target) for target in ("local", "production")]
    fill_by(tx, _MESSAGES, *to, rows=ROWS)


# ---- what the outbox asks ----------------------------------------------------------------------


async def claim_some(outbox: SqlOutbox) -> None:
    taken = await claim(outbox, limit=10)
    assert len(taken) == 10
    changes = [change.release(each.delivery) for each in taken]
    await outbox.settle_many([(each, None) for each in changes])


async def next_due(outbox: SqlOutbox) -> None:
    assert await outbox.next_due_s("local", TOPICS) is not None


async def purge(outbox: SqlOutbox) -> None:
    assert await outbox.purge_sent(older_than=timedelta(minutes=29), limit=5) > 0


async def purge_dead(outbox: SqlOutbox) -> None:
    names, age = ["local", "production"], timedelta(minutes=29)
    assert await outbox.count_dead(names, older_than=age) > 0
    assert await outbox.purge_dead(names, older_than=age, limit=2) > 0


def listing(**fields: Any) -> Callable[[SqlOutbox], Awaitable[None]]:
    async def run(outbox: SqlOutbox) -> None:
        assert await outbox.list_deliveries(DeliveryFilter(**fields), limit=20)

    return run


async def replay(outbox: SqlOutbox) -> None:
    since = START + timedelta(seconds=ROWS - 1000)
    assert await outbox.replay(TOPICS, "staging", since, limit=20) == 20


async def enqueue_again(outbox: SqlOutbox) -> None:
    new = new_message()
    await outbox.add_messages([new])
    await outbox.add_messages([new])


def _of(table: str, constraint: str, number: int) -> str:
    """The index of a constraint, which has another name on either database."""
    return f"({constraint}|sqlite_autoindex_headgate_{table}_{number})"


_BY_ID = _of("deliveries", "pk_headgate_deliveries", 1)
_BY_MESSAGE = _of("deliveries", "uq_headgate_deliveries_message_id_target", 2)
_MESSAGE = _of("messages", "(pk_headgate_messages|ix_headgate_messages_user)", 1)
_BY_KEY = _of("messages", "uq_headgate_messages_topic_key", 2)
_GIVEN = r"(WITH given\([^)]*\) AS \(VALUES .*\) )?"
_UNSENT = r"ix_headgate_deliveries_unsent\b"
_CREATED = r"ix_headgate_messages_created\b"
ASKS: dict[str, Ask[SqlOutbox]] = {
    "claim": Ask(
        claim_some,
        {
            "WITH picked AS": _UNSENT,
            "SELECT headgate_messages.id": _MESSAGE,
            "SELECT headgate_deliveries.id, headgate_deliveries.state": _BY_ID,
            f"{_GIVEN}UPDATE headgate_deliveries SET": _BY_ID,
        },
    ),
    "claim of a run": Ask(
        lambda outbox: claim(outbox, limit=10, run_id="run_10"),
        {"WITH picked AS": r"(ix_headgate_deliveries_(unsent|run))\b"},
    ),
    "claim of a message": Ask(
        lambda outbox: claim(outbox, limit=10, message_id="filled_2005"),
        {"WITH picked AS": f"({_BY_MESSAGE}|{_UNSENT})"},
    ),
    "next due": Ask(next_due, {"SELECT": _UNSENT}),
    "extend": Ask(
        lambda outbox: outbox.extend([Claim("filled_1031.local", 1)], lease=LEASE),
        {"WITH mine AS": _BY_ID},
    ),
    "expired": Ask(
        lambda outbox: outbox.list_expired(limit=100), {"SELECT": "ix_headgate_deliveries_sending"}
    ),
    "next expiry": Ask(
        lambda outbox: outbox.next_sweep_s(), {"SELECT": "ix_headgate_deliveries_sending"}
    ),
    "purge": Ask(
        purge,
        {
            "SELECT headgate_deliveries.message_id": r"ix_headgate_deliveries_sent\b",
            "SELECT headgate_messages.id": _MESSAGE,
            "SELECT headgate_deliveries_1.message_id": _BY_MESSAGE,
            "DELETE FROM headgate_deliveries": _BY_MESSAGE,
            "DELETE FROM headgate_messages": _MESSAGE,
        },
    ),
    "purge dead ones": Ask(
        purge_dead,
        {
            "SELECT count": "ix_headgate_deliveries_state",
            "SELECT DISTINCT headgate_deliveries.message_id": "ix_headgate_deliveries_state",
            "SELECT headgate_messages.id": _MESSAGE,
            "SELECT headgate_deliveries.id": _BY_MESSAGE,
            "DELETE FROM headgate_deliveries": _BY_MESSAGE,
            "DELETE FROM headgate_messages": _MESSAGE,
        },
    ),
    "get a message": Ask(
        lambda outbox: outbox.get_message("filled_2005", user_id="user_11"), {"SELECT": _MESSAGE}
    ),
    "list by state": Ask(
        listing(target="local", states=(DeliveryState.DEAD,)),
        {"SELECT": "ix_headgate_deliveries_state"},
    ),
    "list by run": Ask(listing(run_id="run_10"), {"SELECT": "ix_headgate_deliveries_run"}),
    "list by user": Ask(listing(user_id="user_3"), {"SELECT": "ix_headgate_deliveries_user"}),
    "list by message": Ask(listing(message_id="filled_7"), {"SELECT": _BY_MESSAGE}),
    "replay": Ask(replay, {"SELECT": _CREATED}),
    "enqueue again": Ask(enqueue_again, {"SELECT": _BY_KEY}),
}

#: A walk over all rows. On SQLite it begins with SCAN, where a small partial index is as good as
#: none.
_FULL_SCAN = re.compile(
    r"Seq Scan on headgate_(messages|deliveries)"
    r"|SCAN (headgate_deliveries|headgate_messages|headgate_deliveries_1)"
    r"(?! USING (COVERING )?INDEX ix_headgate_deliveries_(sending|unsent))"
)


CLOCK = ManualClock(START)
CROWD = Crowd(
    fill=fill,
    clock=CLOCK,
    tables=("headgate_messages", "headgate_deliveries"),
    full_scan=_FULL_SCAN,
    asks=ASKS,
    store=lambda database: SqlOutbox(database, CLOCK),
)


async def test_what_is_asked_often_stands_on_an_index(crowded: SqlOutbox) -> None:
    await check_plans(CROWD, crowded)


async def test_a_generic_plan_stands_on_the_same_indexes(crowded_url: str) -> None:
    # How much a replay, which an operator asks now and then, has to look at is known by its values.
    await check_generic_plans(CROWD, crowded_url, without={"replay"})


async def test_a_claim_is_served_in_the_order_of_its_index_and_sorts_nothing(
    crowded: SqlOutbox,
) -> None:
    with CROWD.caught() as sent:
        await claim(crowded, limit=10)

    steps = await plan(crowded.database, sent[0])

    assert not re.search(r"Sort|TEMP B-TREE FOR ORDER BY", steps), steps
