"""The drain of a target: what is sent, what comes back, and what happens when something breaks."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headgate.base.errors import FaultKind, InvalidInput, StoreFault, StoreUnavailable
from headgate.flow.leases.settle import SETTLE_RESTS_S
from headgate.flow.outbox import attempts
from headgate.flow.outbox.attempts import DrainResult
from headgate.flow.outbox.drain import FAILURES_MAX, _Run
from headgate.flow.outbox.drain_log import DrainLog
from headgate.flow.outbox.drain_scope import DrainScope
from headgate.model import delivery as change
from headgate.model.delivery import Acceptance, Message, Rejection, SendFailure, TargetRefusal
from headgate.model.states import DELIVERY, DeliveryState
from headgate.policy.deliveries import RETRY_AFTER_S_MAX
from tests.flow.logs import lines, told
from tests.outboxes import LEASE, PostOffice, ScriptedSender, in_post_office, target
from tests.stores import SOON_S
from tests.worlds import as_test

with_post_office = as_test(in_post_office)

DOWN = SendFailure("it answered 503")
WRONG_KEY = TargetRefusal("it answered 401: the API key is missing or wrong")
NEVER = Rejection("it answered 422: the message is not valid")


def names(count: int) -> list[str]:
    """So many keys, in order."""
    return [f"m{number:03d}" for number in range(count)]


# ---- what is sent ------------------------------------------------------------------------------


@with_post_office
async def test_everything_that_is_due_is_sent_once_the_oldest_first(office: PostOffice) -> None:
    await office.enqueue("a", "b", "c")

    with told("info") as stream:
        result = await office.drain()

    assert office.sender.keys == ["a", "b", "c"]
    assert (result.target, result.sent, result.processed, result.more) == ("local", 3, 3, False)
    assert set((await office.states()).values()) == {"sent"}
    assert (await office.drain()).processed == 0
    assert [line["target"] for line in lines(stream, "drain_began")] == ["local"]
    [ended] = lines(stream, "drain_ended")
    assert (ended["processed"], ended["sent"], ended["failed"]) == (3, 3, 0)


@with_post_office
async def test_a_drain_of_nothing_is_told_unless_nobody_asked_for_it(office: PostOffice) -> None:
    with told("info") as stream:
        result = await office.drain()
    assert [line["event"] for line in lines(stream)] == ["drain_began", "drain_ended"]
    assert (result.processed, lines(stream)[1]["processed"]) == (0, 0)
    with told("info") as stream:
        await office.drain(quiet=True)
    assert lines(stream) == []

    # And one that nobody asked for is told if it has something to send
    await office.enqueue("a")
    with told("info") as stream:
        await office.drain(quiet=True)
    assert [line["event"] for line in lines(stream)] == ["drain_began", "drain_ended"]

    # And so is one that fails.
    office.store.fail_before["claim"] = 1

    with told("info") as stream, pytest.raises(StoreUnavailable):
        await office.drain()

    assert [line["event"] for line in lines(stream)] == ["drain_began", "drain_ended"]


@with_post_office
async def test_no_more_are_sent_than_the_limit(office: PostOffice) -> None:
    await office.enqueue(*names(7))

    first = await office.drain(limit=5, batch=2)
    nothing = await office.drain(limit=0)
    rest = await office.drain(limit=5)

    assert (first.sent, first.more) == (5, True)
    assert (nothing.sent, nothing.more) == (0, True)
    assert (rest.sent, rest.more) == (2, False)
    assert office.store.claims == [2, 2, 1, 5]


@pytest.mark.parametrize(("limit", "batch"), [(-1, 1), (None, 0), (1, -1)])
def test_numbers_that_cannot_work_are_refused_by_name(limit: int | None, batch: int) -> None:
    with pytest.raises(InvalidInput, match=r"^(limit|batch): must"):
        DrainScope(limit=limit, batch=batch)


@with_post_office
async def test_the_next_batch_is_claimed_before_the_last_is_sent(office: PostOffice) -> None:
    # Given a batch of four, which are sent one by one
    await office.enqueue(*names(10))
    office.sender.takes_s["local"] = 1.0
    claimed_at: list[float] = []
    claim = office.real_store.claim

    async def noted(*args: Any, **named: Any) -> Any:
        claimed_at.append(len(office.sender.begun))
        return await claim(*args, **named)

    office.real_store.claim = noted  # type: ignore[method-assign]

    result = await office.drain(batch=4)

    # Then a claim begins when half of it is left, and never two at the same time
    assert result.sent == 10
    assert claimed_at == [0, 3, 7]
    assert office.store.claims == [4, 4, 4]


@pytest.mark.parametrize("at_once", [1, 3, 8])
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_target_gets_as_many_requests_at_once_as_it_takes_and_no_more(
    tmp_path: Path, at_once: int, seed: int | None
) -> None:
    async def main(office: PostOffice) -> None:
        await office.enqueue(*names(20))
        office.sender.takes_s["local"] = 1.0
        began_s = office.clock.monotonic()

        await office.drain(batch=10)

        assert office.sender.most_under_way == at_once
        took_s = office.clock.monotonic() - began_s
        assert took_s < -(-20 // at_once) + 1
        assert sorted(office.sender.keys) == names(20)

    in_post_office(tmp_path, main, target(concurrency=at_once), seed=seed)


@as_test(in_post_office, target(concurrency=2))
async def test_several_drains_of_a_target_together_send_no_more_at_once(office: PostOffice) -> None:
    # Given a long drain in the background, and messages that are sent right after their commit
    await office.enqueue(*names(20), run_id="background")
    urgent = await office.enqueue("x", "y", "z")
    office.sender.takes_s["local"] = 1.0

    results = await asyncio.gather(
        office.drain(run_id="background"), *(office.drain(message_id=each) for each in urgent)
    )

    assert office.sender.most_under_way == 2
    assert [each.sent for each in results] == [20, 1, 1, 1]
    # None waits until the long one is over.
    assert max(office.sender.keys.index(key) for key in "xyz") < 10


@with_post_office
async def test_the_counts_are_told_as_they_change(office: PostOffice) -> None:
    await office.enqueue("a", "b", "c")
    office.sender.answers = {"a": DOWN, "b": NEVER}
    office.sender.takes_s["local"] = 1.0
    counts: list[tuple[int, int, int]] = []

    await office.drain(progress=lambda it: counts.append((it.sent, it.failed, it.dead)))

    assert counts == [(0, 1, 0), (0, 1, 1), (1, 1, 1)]


@pytest.mark.parametrize(("together", "counts"), [(3, [3, 6, 7]), (100, [7])])
@with_post_office
async def test_attempts_that_end_within_a_moment_are_settled_together_unless_there_are_many(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch, together: int, counts: list[int]
) -> None:
    monkeypatch.setattr(attempts, "TOGETHER", together)

    await office.enqueue(*names(7))
    office.sender.takes_s["local"] = attempts.WAIT_S / 10
    told: list[int] = []

    await office.drain(progress=lambda result: told.append(result.sent))

    assert told == counts


# ---- what a target says ------------------------------------------------------------------------


@pytest.mark.fault(30)
@with_post_office
async def test_a_rejection_at_the_head_blocks_nobody(office: PostOffice) -> None:
    keys = names(60)
    await office.enqueue(*keys)
    office.sender.answers = {key: NEVER for key in keys[:50]}

    with told("info") as stream:
        result = await office.drain()

    assert (result.dead, result.sent) == (50, 10)
    found = await office.deliveries()
    assert found[keys[0]].error == NEVER.reason
    assert found[keys[0]].next_attempt_at is None
    assert [line["state"] for line in lines(stream, "not_delivered")] == ["dead"] * 50
    # Nothing happens to them by itself, however long it takes.
    await office.clock.sleep(10**7)
    assert (await office.drain()).processed == 0


@with_post_office
async def test_a_failed_delivery_is_sent_again_when_it_is_due(office: PostOffice) -> None:
    await office.enqueue("a")
    office.sender.default = DOWN

    result = await office.drain()
    failed = (await office.deliveries())["a"]

    assert (result.failed, result.rest_s, result.stopped) == (1, None, None)
    assert (failed.state, failed.attempts, failed.error) == (
        DeliveryState.FAILED,
        1,
        "it answered 503",
    )
    assert failed.next_attempt_at is not None
    wait_s = (failed.next_attempt_at - office.clock.now()).total_seconds()
    assert 7.5 <= wait_s <= 10

    assert (await office.drain()).processed == 0
    await office.clock.sleep(wait_s)
    assert (await office.drain()).failed == 1
    assert (await office.deliveries())["a"].attempts == 2


@pytest.mark.parametrize("at_once", [1, FAILURES_MAX + 3])
def test_failures_in_a_row_end_the_drain_and_give_back_the_rest(
    tmp_path: Path, at_once: int
) -> None:
    async def main(office: PostOffice) -> None:
        await office.enqueue(*names(20))
        office.sender.default = DOWN
        most = max(FAILURES_MAX, at_once)

        result = await office.drain()

        # Besides those in a row, only what the other senders have begun meanwhile
        assert most <= result.failed < most + at_once
        assert (result.released, result.rest_s) == (20 - result.failed, 0.0)
        given_back = [each for each in (await office.deliveries()).values() if not each.attempts]
        assert len(given_back) == result.released > 0
        assert {each.state for each in given_back} == {DeliveryState.PENDING}
        assert {each.crashes for each in given_back} == {0}

    in_post_office(tmp_path, main, target(concurrency=at_once))


@pytest.mark.parametrize("between", [None, NEVER])
@with_post_office
async def test_failures_that_are_not_in_a_row_do_not_end_the_drain(
    office: PostOffice, between: Rejection | None
) -> None:
    keys = names(3 * FAILURES_MAX)
    await office.enqueue(*keys)
    every = FAILURES_MAX
    office.sender.answers = {
        key: DOWN for place, key in enumerate(keys) if place % every != every - 1
    }
    if between is not None:
        office.sender.default = between

    result = await office.drain()

    assert (result.processed, result.rest_s) == (len(keys), None)


@pytest.mark.parametrize(("asked_s", "rest_s"), [(7.0, 7.0), (1e9, RETRY_AFTER_S_MAX), (-1.0, 0.0)])
@pytest.mark.fault(31)
@with_post_office
async def test_a_target_that_asks_for_a_rest_gets_it_within_bounds(
    office: PostOffice, asked_s: float, rest_s: float
) -> None:
    await office.enqueue("a", "b", "c")
    office.sender.answers["b"] = SendFailure("it answered 429", asked_s)

    result = await office.drain()

    assert (result.sent, result.failed, result.released) == (1, 1, 1)
    assert result.rest_s == rest_s
    assert await office.states() == {"a": "sent", "b": "failed", "c": "pending"}


@as_test(in_post_office, target(concurrency=2))
async def test_of_two_rests_that_are_asked_for_the_longer_one_counts(office: PostOffice) -> None:
    await office.enqueue("a", "b")
    office.sender.answers = {"a": SendFailure("busy", 100.0), "b": SendFailure("busy", 5.0)}

    assert (await office.drain()).rest_s == 100.0


@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.fault(31)
def test_a_wrong_key_stops_the_target_and_kills_nothing(tmp_path: Path, at_once: int) -> None:
    async def main(office: PostOffice) -> None:
        await office.enqueue(*names(200))
        before = await office.deliveries()
        office.sender.default = WRONG_KEY
        office.sender.takes_s["local"] = 1.0

        with told("info") as stream:
            result = await office.drain()

        # Only those that were under way were sent, and all are as they were
        assert len(office.sender.begun) == at_once
        assert (result.processed, result.stopped) == (0, WRONG_KEY.reason)
        after = await office.deliveries()
        assert {each.state for each in after.values()} == {DeliveryState.PENDING}
        for key, each in before.items():
            assert (after[key].attempts, after[key].crashes, after[key].error) == (0, 0, None)
            assert each.next_attempt_at is not None and after[key].next_attempt_at is not None
        stops = await office.outbox.stopped_targets()
        assert stops["local"].reason == WRONG_KEY.reason
        assert len(lines(stream, "target_stopped")) == 1

        # And nothing more is sent until somebody has corrected it
        again = await office.drain()
        assert (again.processed, again.stopped) == (0, WRONG_KEY.reason)
        assert len(office.sender.begun) == at_once

    in_post_office(tmp_path, main, target(concurrency=at_once))


@with_post_office
async def test_a_wrong_key_leaves_what_had_failed_as_failed_as_it_was(office: PostOffice) -> None:
    # Given deliveries that failed before, and are due again
    await office.enqueue("a", "b")
    office.sender.default = DOWN
    await office.drain()
    before = await office.deliveries()
    await office.clock.sleep(3600)
    office.sender.default = WRONG_KEY

    with told("info") as stream:
        result = await office.drain()

    # Then both are given back, the one that was sent and the one that was not
    assert (len(office.sender.begun), result.released, result.processed) == (3, 2, 0)
    for key, after in (await office.deliveries()).items():
        was = before[key]
        assert (after.state, after.attempts) == (DeliveryState.FAILED, was.attempts)
        assert (after.error, after.crashes) == (DOWN.reason, 0)
        assert after.next_attempt_at == office.clock.now()
    # And the old error is not told as the cause
    assert lines(stream, "not_delivered") == []
    assert len(lines(stream, "target_stopped")) == 1


# ---- stopped targets ---------------------------------------------------------------------------


async def stopped(office: PostOffice, *keys: str) -> None:
    """A target that has stopped, with these messages waiting."""
    await office.enqueue(*keys)
    office.sender.default = WRONG_KEY
    await office.drain()
    office.sender.begun.clear()


@pytest.mark.parametrize("limit", [None, 3])
@pytest.mark.parametrize("first", ["accepted", "rejected"])
@with_post_office
async def test_a_probe_that_the_target_answers_lets_all_go_on(
    office: PostOffice, limit: int | None, first: str
) -> None:
    await stopped(office, *names(5))
    office.sender.default = Acceptance()
    if first == "rejected":
        office.sender.answers["m000"] = NEVER

    with told("info") as stream:
        result = await office.drain(probe=True, limit=limit)

    total = limit or 5
    assert (result.processed, result.dead) == (total, int(first == "rejected"))
    assert (result.more, result.stopped) == (limit is not None, None)
    assert await office.outbox.stopped_targets() == {}
    assert [line["target"] for line in lines(stream, "target_resumed")] == ["local"]
    # No more are sent than that, and all are told once
    assert len(office.sender.begun) == total
    assert len(lines(stream, "drain_began")) == 1
    [ended] = lines(stream, "drain_ended")
    assert ended["processed"] == total


@pytest.mark.parametrize("limit", [None, 1, 10])
@pytest.mark.parametrize("at_once", [1, 4])
def test_a_probe_that_is_refused_leaves_the_target_stopped(
    tmp_path: Path, at_once: int, limit: int | None
) -> None:
    async def main(office: PostOffice) -> None:
        await stopped(office, *names(10))
        office.sender.default = TargetRefusal("it answered 403")
        # Long enough for others to be sent meanwhile, if any may
        office.sender.takes_s["local"] = 1.0

        result = await office.drain(probe=True, limit=limit)

        assert len(office.sender.begun) == 1
        assert (result.processed, result.released, result.more) == (0, 1, False)
        assert result.stopped == "it answered 403"
        # The first reason is kept.
        assert (await office.outbox.stopped_targets())["local"].reason == WRONG_KEY.reason
        assert set((await office.states()).values()) == {"pending"}

    in_post_office(tmp_path, main, target(concurrency=at_once))


@with_post_office
async def test_a_probe_that_fails_or_may_send_nothing_says_nothing_about_the_key(
    office: PostOffice,
) -> None:
    await stopped(office, "a")

    assert (await office.drain(probe=True, limit=0)).stopped == WRONG_KEY.reason
    assert office.sender.begun == []

    # And one that fails says nothing about the key.
    office.sender.default = DOWN

    result = await office.drain(probe=True)

    assert (len(office.sender.begun), result.failed) == (1, 1)
    assert result.stopped == WRONG_KEY.reason


@with_post_office
async def test_a_target_that_is_given_by_hand_neither_heeds_nor_notes_a_stop(
    office: PostOffice,
) -> None:
    # Given a target whose URL and key are given by hand: it refuses
    await office.enqueue("a", "b")
    office.sender.default = WRONG_KEY
    with told("info") as stream:
        refused = await office.drain(by_hand=True)

    # Then the configured target of that name is not stopped by it
    assert (refused.stopped, refused.released) == (WRONG_KEY.reason, 2)
    assert await office.outbox.stopped_targets() == {}
    assert lines(stream, "target_stopped") == []

    # And where that has stopped, it is sent by hand all the same, and stays stopped
    await office.store.stop_target("local", "it answered 401")
    office.sender.default = Acceptance()
    assert (await office.drain(by_hand=True)).sent == 2
    assert set(await office.outbox.stopped_targets()) == {"local"}


@with_post_office
async def test_another_sender_sends_from_the_same_outbox(office: PostOffice) -> None:
    await office.enqueue("a")
    other = ScriptedSender(office.clock)

    result = await office.drainer.with_sender(other).drain(target())

    assert (result.sent, other.keys, office.sender.keys) == (1, ["a"], [])
    sent = (await office.deliveries())["a"]
    assert (sent.state, sent.worker) == (DeliveryState.SENT, office.drainer.worker)


# ---- a store that is away ----------------------------------------------------------------------


@with_post_office
async def test_a_store_that_is_away_while_claiming_ends_the_drain_after_what_it_has(
    office: PostOffice,
) -> None:
    await office.enqueue(*names(6))
    office.sender.takes_s["local"] = 1.0

    async def fail_later(message: Message) -> None:
        office.store.fail_before["claim"] = 1

    office.sender.meanwhile = fail_later

    with pytest.raises(StoreUnavailable):
        await office.drain(batch=4)

    assert sorted((await office.states()).values()) == ["pending"] * 2 + ["sent"] * 4


@pytest.mark.parametrize("operation", ["claim", "stopped_targets", "list_expired"])
@with_post_office
async def test_a_store_that_is_away_from_the_beginning_is_told(
    office: PostOffice, operation: str
) -> None:
    await office.enqueue("a")
    office.store.fail_before[operation] = 1

    with pytest.raises(StoreUnavailable):
        await office.drain()

    assert office.sender.begun == []
    assert (await office.drain()).sent == 1


@pytest.mark.parametrize("when", ["before", "after"])
@as_test(in_post_office, target(concurrency=3))
async def test_an_outage_while_settling_is_waited_out_and_nothing_is_sent_twice(
    office: PostOffice, when: str
) -> None:
    await office.enqueue("a", "b", "c")
    office.sender.answers = {"b": DOWN, "c": NEVER}
    faults = office.store.fail_before if when == "before" else office.store.fail_after
    faults.update(settle_many=1, settle=2)

    result = await office.drain()

    assert (result.sent, result.failed, result.dead) == (1, 1, 1)
    assert await office.states() == {"a": "sent", "b": "failed", "c": "dead"}
    assert office.sender.keys == ["a", "b", "c"]
    assert office.measurements.lost_claims[DELIVERY.name] == 0


@with_post_office
async def test_a_store_that_stays_away_leaves_what_was_sent_to_its_lease(
    office: PostOffice,
) -> None:
    await office.enqueue(*names(5))
    office.store.fail_before.update(settle_many=100, settle=100)
    office.sender.takes_s["local"] = sum(SETTLE_RESTS_S) + 1

    with told("info") as stream, pytest.raises(StoreUnavailable):
        await office.drain()

    # Then it is not known that the first was sent, and only the second was under way
    assert office.sender.keys == ["m000", "m001"]
    assert set((await office.states()).values()) == {"sending"}
    assert [line["count"] for line in lines(stream, "deliveries_not_released")] == [3]
    assert len(office.drainer.claims) == 0

    # And later both are sent again, under the same keys, and the rest with them
    office.store.fail_before.clear()
    await office.clock.sleep(LEASE.total_seconds() + 1)
    assert (await office.drain()).sent == 5
    assert office.sender.keys == ["m000", "m001", *names(5)]
    assert {each.crashes for each in (await office.deliveries()).values()} == {1}


@as_test(in_post_office, target(concurrency=3))
async def test_one_delivery_that_the_store_refuses_does_not_take_the_others_with_it(
    office: PostOffice,
) -> None:
    await office.enqueue("a", "b", "c")
    settle, settle_many = office.real_store.settle, office.real_store.settle_many

    async def refusing(made: Any, *rest: Any) -> Any:
        if made.before.id == bad:
            raise ValueError("the row is not taken")
        return await settle(made, *rest)

    async def refusing_all(batch: Any) -> Any:
        if any(made.before.id == bad for made, _ in batch):
            raise ValueError("the row is not taken")
        return await settle_many(batch)

    bad = (await office.deliveries())["b"].id
    office.real_store.settle = refusing  # type: ignore[method-assign]
    office.real_store.settle_many = refusing_all  # type: ignore[method-assign]

    with pytest.raises(ValueError, match="not taken"):
        await office.drain()

    assert await office.states() == {"a": "sent", "b": "sending", "c": "sent"}


@as_test(in_post_office, target(concurrency=2))
async def test_a_stop_that_cannot_be_noted_ends_the_drain_and_gives_back_the_rest(
    office: PostOffice,
) -> None:
    await office.enqueue("a", "b", "c")
    office.sender.answers["a"] = WRONG_KEY
    office.store.fail_before["stop_target"] = 1

    async def take_longer(message: Message) -> None:
        await office.clock.sleep(5.0 if message.key == "b" else 1.0)

    office.sender.meanwhile = take_longer

    with pytest.raises(StoreUnavailable):
        await office.drain()

    # What was under way beside it was finished
    assert await office.states() == {"a": "pending", "b": "sent", "c": "pending"}
    assert {each.attempts for each in (await office.deliveries()).values()} == {0, 1}


# ---- leases ------------------------------------------------------------------------------------


@with_post_office
async def test_what_takes_longer_than_a_lease_stays_claimed(office: PostOffice) -> None:
    await office.enqueue("a", "b")
    office.sender.takes_s["local"] = 5 * LEASE.total_seconds()
    other = PostOffice(office.world, office.real_store.database, worker="worker_2")

    draining = asyncio.create_task(office.drain())
    await office.clock.sleep(4 * LEASE.total_seconds())
    meanwhile = await other.drain()
    result = await draining

    assert (meanwhile.processed, result.sent) == (0, 2)
    assert {each.crashes for each in (await office.deliveries()).values()} == {0}


@pytest.mark.parametrize("error", [StoreUnavailable("away"), ValueError("a fault of ours")])
@with_post_office
async def test_a_beat_that_fails_is_told_and_the_next_one_counts(
    office: PostOffice, error: Exception
) -> None:
    await office.enqueue("a")
    office.sender.takes_s["local"] = 2 * LEASE.total_seconds()
    office.store.fail_before["extend"] = 1
    office.store.error = error

    with told("info") as stream:
        result = await office.drain()

    assert result.sent == 1
    assert len(lines(stream, "claims_not_extended")) == 1
    assert office.store.calls.count("extend") >= 3


async def paused_before_second(office: PostOffice) -> None:
    """The process stands still for two leases after the first message was sent."""

    async def stand_still(message: Message) -> None:
        office.sender.meanwhile = None
        # Not by the clock of this process: no beat of its own is heard meanwhile.
        office.store.fail_before["extend"] = 100
        await office.clock.sleep(2 * LEASE.total_seconds())

    office.sender.meanwhile = stand_still


@with_post_office
async def test_a_claim_that_was_lost_meanwhile_is_not_sent(office: PostOffice) -> None:
    # Given a process that could not extend its leases, so that another has sent the second
    await office.enqueue("a", "b")
    await paused_before_second(office)
    other = PostOffice(office.world, office.real_store.database, worker="worker_2")
    draining = asyncio.create_task(office.drain())
    await office.clock.sleep(1.5 * LEASE.total_seconds())
    assert (await other.drain()).sent == 2
    office.store.fail_before.clear()

    result = await draining

    # Then what the first process sent meanwhile does not count, and the second is not sent
    assert office.sender.keys == ["a"]
    assert (result.processed, result.released) == (0, 0)
    assert office.measurements.lost_claims[DELIVERY.name] == 2
    assert set((await office.states()).values()) == {"sent"}
    assert {each.attempts for each in (await office.deliveries()).values()} == {1}


@with_post_office
async def test_a_claim_that_cannot_be_checked_is_given_back_unsent(office: PostOffice) -> None:
    await office.enqueue("a", "b", "c")
    await paused_before_second(office)

    with pytest.raises(StoreUnavailable):
        await office.drain()

    assert office.sender.keys == ["a"]
    assert await office.states() == {"a": "sent", "b": "pending", "c": "pending"}


@pytest.mark.parametrize("taken", ["a", "b"])
@with_post_office
async def test_what_others_took_is_neither_settled_nor_given_back_but_counted_as_lost(
    office: PostOffice, taken: str
) -> None:
    # Given others who take the one that is being sent, or the one behind it, when it is to stop
    await office.enqueue("a", "b")
    stop = asyncio.Event()

    async def rescue_and_stop(message: Message) -> None:
        row = (await office.deliveries())[taken]
        await office.real_store.settle(change.rescue(row, after=timedelta(0)))
        stop.set()

    office.sender.meanwhile = rescue_and_stop

    result = await office.drainer.drain(office.targets.get("local"), stop=stop)

    assert (result.sent, result.released) == ((0, 1) if taken == "a" else (1, 0))
    assert office.measurements.lost_claims[DELIVERY.name] == 1
    found = (await office.deliveries())[taken]
    assert (found.state, found.crashes) == (DeliveryState.PENDING, 1)


@with_post_office
async def test_deliveries_of_lost_workers_are_taken_back_and_counted(office: PostOffice) -> None:
    await office.enqueue("a", "b")
    lost = {"limit": 2, "lease": LEASE, "worker": "lost"}
    await office.real_store.claim("local", ["orders"], **lost)  # type: ignore[arg-type]
    assert (await office.drain()).processed == 0

    await office.clock.sleep(LEASE.total_seconds() + 1)

    assert (await office.drain()).sent == 2
    assert office.measurements.rescues[DELIVERY.name] == 2

    # The first loss is forgiven; after the second it waits
    await office.enqueue("c")
    for _ in range(2):
        await office.real_store.claim("local", ["orders"], **lost)  # type: ignore[arg-type]
        await office.clock.sleep(LEASE.total_seconds() + 1)
        await office.drainer.rescue()
    assert (await office.drain()).processed == 0
    await office.clock.sleep(10)
    assert (await office.drain()).sent == 1


@with_post_office
async def test_a_worker_that_is_lost_while_the_disk_is_full_counts_no_crash(
    office: PostOffice,
) -> None:
    await office.enqueue("a")
    office.drainer.find_fault = lambda: StoreFault(FaultKind.DISK_FULL, "no space is left")
    for _ in range(3):
        await office.real_store.claim("local", ["orders"], limit=1, lease=LEASE, worker="lost")
        await office.clock.sleep(LEASE.total_seconds() + 1)
        await office.drainer.rescue()

    assert (await office.deliveries())["a"].crashes == 0
    assert (await office.drain()).sent == 1


# ---- ends before its time ----------------------------------------------------------------------


@with_post_office
async def test_a_stop_finishes_what_is_being_sent_and_gives_back_the_rest(
    office: PostOffice,
) -> None:
    await office.enqueue("a", "b", "c")
    office.sender.takes_s["local"] = 10.0
    stop = asyncio.Event()
    drain = office.drainer.drain(office.targets.get("local"), stop=stop)
    draining = asyncio.create_task(drain)
    await office.clock.sleep(5)

    stop.set()
    result = await draining

    assert (result.sent, result.released) == (1, 2)
    assert await office.states() == {"a": "sent", "b": "pending", "c": "pending"}


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_a_drain_that_is_cancelled_leaves_what_it_was_sending_to_its_lease(
    tmp_path: Path, seed: int | None
) -> None:
    async def main(office: PostOffice) -> None:
        await office.enqueue(*names(6))
        office.sender.takes_s["local"] = 10.0
        draining = asyncio.create_task(office.drain(batch=4))
        await office.clock.sleep(15)

        draining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await draining

        # Then what was sent is settled, and what was not begun is free for others
        states = sorted((await office.states()).values())
        assert states == ["pending"] * 2 + ["sending"] * 2 + ["sent"] * 2
        assert len(office.drainer.claims) == 0
        assert office.sender.under_way == 0
        office.sender.takes_s.clear()
        assert (await office.drain()).sent == 2
        await office.clock.sleep(LEASE.total_seconds())
        assert (await office.drain()).sent == 2

    in_post_office(tmp_path, main, target(concurrency=2), seed=seed)


@pytest.mark.parametrize("how", ["stopped", "cancelled"])
@with_post_office
async def test_a_drain_that_ends_while_it_claims_gives_back_what_it_claims(
    office: PostOffice, how: str
) -> None:
    await office.enqueue("a", "b")
    claim, stop = office.real_store.claim, asyncio.Event()

    async def slow(*args: Any, **named: Any) -> Any:
        claimed = await claim(*args, **named)
        await office.clock.sleep(10)
        return claimed

    office.real_store.claim = slow  # type: ignore[method-assign]
    draining = asyncio.create_task(office.drainer.drain(office.targets.get("local"), stop=stop))
    await office.clock.sleep(5)

    if how == "stopped":
        stop.set()
        result = await draining
        assert (result.processed, result.released) == (0, 2)
    else:
        draining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await draining
    assert office.sender.begun == []
    assert set((await office.states()).values()) == {"pending"}


@pytest.mark.parametrize("operation", ["settle_many", "claim"])
@with_post_office
async def test_a_drain_that_is_cancelled_twice_leaves_no_claim_behind(
    office: PostOffice, operation: str
) -> None:
    # Given a store that does not answer, so that the drain cannot even end
    await office.enqueue(*names(6))
    real = getattr(office.real_store, operation)

    async def hang(*args: Any, **named: Any) -> Any:
        if office.sender.begun:
            await asyncio.Event().wait()
        return await real(*args, **named)

    setattr(office.real_store, operation, hang)
    office.sender.takes_s["local"] = 1.0
    draining = asyncio.create_task(office.drain(batch=4))
    await office.clock.sleep(2.5)

    for _ in range(2):
        draining.cancel()
        await office.clock.sleep(1)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(draining, SOON_S)

    # Then nobody extends its leases, so that others get the deliveries
    await office.clock.sleep(1)
    assert len(office.drainer.claims) == 0
    setattr(office.real_store, operation, real)
    await office.clock.sleep(3 * LEASE.total_seconds())
    before = len(office.sender.begun)
    await office.drain()
    assert len(office.sender.begun) > before
    assert set((await office.states()).values()) == {"sent"}


@with_post_office
async def test_a_sender_that_raises_is_a_failure_of_that_delivery_alone(office: PostOffice) -> None:
    await office.enqueue("a", "b")
    office.sender.answers["a"] = RuntimeError("Bearer s3cret")

    result = await office.drain()

    assert (result.failed, result.sent) == (1, 1)
    assert (await office.deliveries())["a"].error == "the sender failed: RuntimeError"


@with_post_office
async def test_a_progress_that_raises_ends_the_drain_and_loses_nothing(office: PostOffice) -> None:
    await office.enqueue("a", "b", "c")
    office.sender.takes_s["local"] = 1.0

    def closed(result: Any) -> None:
        raise BrokenPipeError("the terminal is gone")

    with pytest.raises(BrokenPipeError):
        await office.drain(progress=closed)

    # What was sent is settled, and the rest given back at once
    states = sorted((await office.states()).values())
    assert states in (["pending", "pending", "sent"], ["pending", "sent", "sent"])


@with_post_office
async def test_a_drain_whose_event_loop_is_gone_awaits_nothing_more(office: PostOffice) -> None:
    await office.enqueue("a")
    told = DrainLog(DrainResult(target="local"))
    work = _Run(office.drainer, target(), DrainScope(), told, lambda _: None, None).work()
    waits_for: Any = work.send(None)

    # As happens to what a process that has crashed leaves behind
    work.close()

    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.gather(waits_for, return_exceptions=True)
    assert office.sender.begun == []
    assert set((await office.states()).values()) == {"pending"}
