"""What a drain would send is counted as a claim finds it, and nothing is changed by counting."""

from datetime import timedelta

from headgate.base.clock import ManualClock
from headgate.model import delivery as change
from headgate.model.states import DeliveryState
from headgate.ports.outbox import Backlog
from headgate.store.sql.outbox.store import SqlOutbox
from tests.conformance.outboxes import new_message
from tests.stores import LEASE


async def test_what_is_due_is_what_a_claim_would_take(
    outbox: SqlOutbox, clock: ManualClock
) -> None:
    given = {"run_id": "run-1"}, {"run_id": "run-2"}, {"run_id": "run-1"}, {"topic": "others"}
    targets = ["local", "staging"]
    await outbox.add_messages([new_message(**fields, targets=targets) for fields in given])
    # On Postgres the server says when they were enqueued, years after the clock of the tests.
    clock.advance(timedelta(days=36_500).total_seconds())

    assert await outbox.count_due("local", ["orders"]) == 3
    assert await outbox.count_due("local", ["orders"], run_id="run-2") == 1
    assert await outbox.count_due("local", ["orders", "others"]) == 4
    assert await outbox.count_due("nowhere", ["orders"]) == 0
    assert await outbox.count_due("local", []) == 0

    # One that is being sent, and one that waits to be sent again, are not due.
    claimed = await outbox.claim("local", ["orders"], limit=2, lease=LEASE, worker="w")
    assert await outbox.count_due("local", ["orders"]) == 1
    failed = change.fail(claimed[0].delivery, error="503", after=timedelta(hours=1))
    await outbox.settle(failed)
    assert await outbox.count_due("local", ["orders"]) == 1
    await outbox.settle(change.release(claimed[1].delivery))
    assert await outbox.count_due("local", ["orders"]) == 2
    taken = await outbox.claim("local", ["orders"], limit=10, lease=LEASE, worker="w")
    assert len(taken) == 2
    # And those are what a drain leaves behind.
    left = await outbox.backlog("local", ["orders"])
    assert (left.later, left.waiting, left.claimed) == ({DeliveryState.FAILED: 1}, 1, 2)
    assert left.next_attempt_at == (await outbox.get(claimed[0].delivery.id)).next_attempt_at
    of_run = await outbox.backlog("local", ["orders"], run_id="run-2")
    assert (of_run.waiting, of_run.next_attempt_at, of_run.claimed) == (0, None, 1)
    assert await outbox.backlog("staging", ["orders"]) == Backlog()
    # The other target was never touched.
    assert await outbox.count_due("staging", ["orders"]) == 3
