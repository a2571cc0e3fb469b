"""The outbox of an application: enqueueing, looking after deliveries, and the targets' workers."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import sqlalchemy as sa
from sqlalchemy import Connection

from headgate import App, Chunk, Context, JobState, Record, Sync, WorkerSettings
from headgate.base.errors import (
    Conflict,
    IllegalTransition,
    InvalidInput,
    NotFound,
    StoreUnavailable,
    Transient,
)
from headgate.flow.outbox import service as flow_outbox
from headgate.flow.outbox.service import BATCH_MAX, Outbox, OutboxSettings
from headgate.loops import pruner as pruner_loop
from headgate.loops.drainer import TargetWorker, target_workers
from headgate.loops.pruner import PRUNE_EVERY_S, sent_pruner
from headgate.model import delivery as change
from headgate.model.delivery import Acceptance, Delivery, Rejection, SendFailure
from headgate.model.job import Reason
from headgate.model.record import ChunkMessage
from headgate.model.states import DeliveryState
from headgate.policy.deliveries import RETRY_AFTER_S_MAX
from headgate.ports.outbox import DeliveryFilter
from headgate.ports.signal import OUTBOX
from headgate.store.sql.jobs.store import SqlJobs
from headgate.store.sql.tables import messages
from tests.flow.test_drain import DOWN, NEVER, WRONG_KEY, names
from tests.outboxes import LOCAL, TOPIC, PostOffice, ScriptedSender, in_post_office, target
from tests.unit.connectors.fakes import ScriptedTransport
from tests.worlds import START, ScriptedSource, World, as_test, with_dying_workers, with_world

with_post_office = as_test(in_post_office)

INTERVAL_S = 60.0
SETTINGS = OutboxSettings(interval_s=INTERVAL_S, batch_limit=3)
DAY = timedelta(days=1)


class Listener:
    """Counts how often it is woken."""

    def __init__(self) -> None:
        self.nudges = 0

    def nudge(self) -> None:
        self.nudges += 1


def listening(office: PostOffice) -> Listener:
    """Somebody who waits for the outbox."""
    found = Listener()
    office.signal.subscribe(OUTBOX, found)
    return found


# ---- enqueueing --------------------------------------------------------------------------------


@with_post_office
async def test_a_message_is_enqueued_once_under_its_key(office: PostOffice) -> None:
    listener = listening(office)
    first = await office.outbox.submit("orders", {"a": 1}, key="k", user_id="ada")
    again = await office.outbox.submit("orders", {"a": 1}, key="k", user_id="ada")

    assert first == again
    assert listener.nudges == 2
    # An application that commits by itself may wake the workers.
    await office.outbox.announce()
    assert listener.nudges == 3
    message = await office.outbox.get_message(first, user_id="ada")
    assert (message.payload, message.key, message.intact) == ('{"a":1}', "k", True)
    with pytest.raises(NotFound):
        await office.outbox.get_message(first, user_id="grace")
    with pytest.raises(Conflict, match=r"^key: it was used before for another payload"):
        await office.outbox.submit("orders", {"a": 2}, key="k", user_id="ada")
    with pytest.raises(InvalidInput, match="no topic is called"):
        await office.outbox.submit("order", {})


@with_world
async def test_a_message_without_a_target_is_kept_for_one_that_is_configured_later(
    world: World,
) -> None:
    # Given an application that has nowhere to send to yet, and says so
    kept = msgspec.structs.replace(TOPIC, targets=())
    app = await world.app(Sync(name="pages", source=two_pages()), topics=[kept])
    supervisor = app.supervisor()
    await supervisor.start()
    await run_job(world, app, JobState.SUCCESS)
    mine = await app.outbox.submit("orders", {"of": "an application"})
    assert await states(app.outbox) == []
    assert await app.outbox.send(mine) == []
    # Not even a purge forgets them
    assert await app.outbox.purge(older_than=timedelta(0)) == 0
    await supervisor.stop()

    # When a target is configured, and they are replayed
    later, sender = await application(world, topics=[kept])
    assert await later.outbox.replay(LOCAL, since=START) == 3
    assert await later.outbox.replay(LOCAL, since=START) == 0
    result = await later.outbox.drain(LOCAL)

    assert (result.sent, len(set(sender.keys))) == (3, 3)


# ---- looking and correcting --------------------------------------------------------------------


@with_post_office
async def test_deliveries_are_found_counted_and_kept_from_other_users(office: PostOffice) -> None:
    await office.enqueue("a", "b", user_id="ada")
    await office.enqueue("c", user_id="grace")
    office.sender.answers["a"] = DOWN
    await office.drain()

    found = await office.outbox.list(limit=2)
    [rest] = await office.outbox.list(limit=2, after=found[-1].id)
    ours = await office.outbox.list(DeliveryFilter(user_id="grace"), limit=9)

    assert [each.state.value for each in (*found, rest)] == ["failed", "sent", "sent"]
    assert ours == [rest]
    counts = (await office.outbox.count())["local"]
    assert (counts[DeliveryState.SENT], counts[DeliveryState.FAILED]) == (2, 1)
    failed = await office.outbox.count(DeliveryFilter(states=(DeliveryState.FAILED,)))
    assert failed["local"][DeliveryState.SENT] == 0
    assert (await office.outbox.get(rest.id, user_id="grace")) == rest
    with pytest.raises(NotFound):
        await office.outbox.get(rest.id, user_id="ada")


@pytest.mark.parametrize("said", [DOWN, NEVER])
@with_post_office
async def test_a_delivery_that_failed_or_is_dead_is_sent_again_at_once(
    office: PostOffice, said: SendFailure | Rejection
) -> None:
    await office.enqueue("a")
    office.sender.answers["a"] = [said, Acceptance()]
    await office.drain()
    delivery = (await office.deliveries())["a"]
    listener = listening(office)

    after = await office.outbox.retry(delivery.id)

    assert (after.state, after.attempts, after.error) == (DeliveryState.PENDING, 0, None)
    assert listener.nudges == 1
    assert (await office.drain()).sent == 1
    with pytest.raises(IllegalTransition, match="is sent: no retry from there"):
        await office.outbox.retry(delivery.id)
    with pytest.raises(NotFound):
        await office.outbox.retry("message_0.local")


@pytest.mark.parametrize("together", [False, True])
@with_post_office
async def test_a_delivery_that_waits_for_a_time_far_away_is_sent_at_once_if_somebody_asks(
    office: PostOffice, together: bool
) -> None:
    # Given one that a process with a wrong clock took back: it is due in ten years
    await office.enqueue("a")
    [taken] = await office.real_store.claim(
        "local", ["orders"], limit=1, lease=timedelta(seconds=1), worker="w"
    )
    await office.real_store.settle(change.rescue(taken.delivery, after=timedelta(days=3650)))
    assert (await office.drain()).processed == 0

    if together:
        waiting = DeliveryFilter(target="local", states=(DeliveryState.PENDING,))
        assert await office.outbox.retry_all(waiting) == 1
    else:
        after = await office.outbox.retry(taken.delivery.id)
        assert (after.state, after.crashes) == (DeliveryState.PENDING, 0)

    assert (await office.drain()).sent == 1


@pytest.mark.parametrize("times", [1, flow_outbox.CHANGE_TRIES_MAX])
@with_post_office
async def test_a_retry_that_others_win_against_is_repeated_a_few_times(
    office: PostOffice, times: int
) -> None:
    await office.enqueue("a")
    office.sender.default = NEVER
    await office.drain()
    delivery = (await office.deliveries())["a"]
    real, left = office.real_store.settle, [times]

    async def beaten(made: Any, *rest: Any) -> Delivery | None:
        if left[0]:
            left[0] -= 1
            return None
        return await real(made, *rest)

    office.real_store.settle = beaten  # type: ignore[method-assign]
    if times < flow_outbox.CHANGE_TRIES_MAX:
        assert (await office.outbox.retry(delivery.id)).state is DeliveryState.PENDING
    else:
        with pytest.raises(Conflict, match="others keep changing the delivery"):
            await office.outbox.retry(delivery.id)


@with_post_office
async def test_all_that_failed_or_are_dead_are_sent_again_and_nothing_else(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_outbox, "ROUND", 2)

    await office.enqueue("a", "b", "c", "d", "e")
    office.sender.answers = {"a": DOWN, "b": NEVER, "c": NEVER}
    await office.drain(limit=4)
    done: list[int] = []
    listener = listening(office)

    assert await office.outbox.retry_all(DeliveryFilter(), progress=done.append) == 3

    assert done == [2, 3]
    assert listener.nudges == 1
    assert sorted((await office.states()).values()) == ["pending"] * 4 + ["sent"]


@with_post_office
async def test_only_those_are_retried_that_match_and_can_be(office: PostOffice) -> None:
    await office.enqueue("a", "b", "c")
    office.sender.answers = {"a": DOWN, "b": NEVER}
    await office.drain()
    dead = DeliveryFilter(states=(DeliveryState.DEAD, DeliveryState.SENT))

    assert await office.outbox.retry_all(dead) == 1

    assert await office.states() == {"a": "failed", "b": "pending", "c": "sent"}
    with pytest.raises(InvalidInput, match=r"^states: only pending or failed or dead"):
        await office.outbox.retry_all(DeliveryFilter(states=(DeliveryState.SENT,)))


@with_post_office
async def test_one_that_changed_meanwhile_is_not_counted_as_retried(office: PostOffice) -> None:
    await office.enqueue("a", "b")
    office.sender.default = NEVER
    await office.drain()
    real = office.real_store.settle_many

    async def late(batch: Any) -> Any:
        await office.real_store.settle(change.retry((await office.deliveries())["a"]))
        return await real(batch)

    office.real_store.settle_many = late  # type: ignore[method-assign]

    assert await office.outbox.retry_all(DeliveryFilter()) == 1


@as_test(in_post_office, target(), target("staging"))
async def test_old_messages_are_sent_to_a_new_target_once(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_outbox, "ROUND", 2)

    await office.enqueue("old")
    await office.clock.sleep(10)
    since = office.clock.now()
    await office.enqueue("a", "b", "c")
    await office.drain("local")
    staging, done = office.targets.get("staging"), list[int]()
    listener = listening(office)

    assert await office.outbox.count_replayable(staging, since=since) == 3
    assert await office.outbox.replay(staging, since=since, progress=done.append) == 3
    assert await office.outbox.replay(staging, since=since) == 0

    assert (done, listener.nudges) == ([2, 3], 2)
    assert await office.outbox.count_replayable(staging, since=since) == 0
    assert (await office.drain("staging")).sent == 3
    assert set(await office.states("staging")) == {"a", "b", "c"}


@as_test(in_post_office, target(), target("staging"))
async def test_only_messages_that_every_target_accepted_long_ago_are_purged(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_outbox, "ROUND", 2)

    await office.enqueue("a", "b", "c")
    await office.enqueue("elsewhere", targets=["local", "staging"])
    await office.enqueue("dead")
    office.sender.answers["dead"] = NEVER
    await office.drain("local")
    await office.clock.sleep(DAY.total_seconds())
    await office.enqueue("new")
    await office.drain("local")
    done: list[int] = []

    assert await office.outbox.purge(older_than=2 * DAY) == 0
    assert await office.outbox.purge(older_than=DAY / 2, progress=done.append) == 3

    assert done == [2, 3]
    assert set(await office.states("local")) == {"elsewhere", "dead", "new"}


@as_test(in_post_office, target(), target("staging"))
async def test_what_can_never_be_delivered_is_purged_only_if_somebody_asks(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_outbox, "ROUND", 2)

    await office.enqueue("a", "b", "c")
    await office.enqueue("d", targets=["staging"])
    await office.enqueue("sent")
    office.sender.answers = dict.fromkeys("abcd", NEVER)
    await office.drain("local")
    await office.drain("staging")
    await office.clock.sleep(DAY.total_seconds())
    done: list[int] = []

    # No worker's purge takes them, and neither does one before their time
    assert await office.outbox.purge(older_than=DAY / 2) == 1
    assert await office.outbox.count_dead(older_than=2 * DAY) == 0
    assert await office.outbox.count_dead(older_than=DAY / 2) == 4
    assert await office.outbox.count_dead(older_than=DAY / 2, target="staging") == 1
    assert await office.outbox.purge_dead(older_than=2 * DAY) == 0

    assert await office.outbox.purge_dead(older_than=DAY / 2, target="staging") == 1
    assert await office.outbox.purge_dead(older_than=DAY / 2, progress=done.append) == 3

    assert done == [2, 3]
    assert not {*await office.states("local"), *await office.states("staging")}


@with_post_office
async def test_a_target_that_was_corrected_goes_on(office: PostOffice) -> None:
    await office.enqueue("a")
    office.sender.answers["a"] = [WRONG_KEY, Acceptance()]
    await office.drain()
    listener = listening(office)

    assert await office.outbox.resume("local")
    assert not await office.outbox.resume("local")

    assert listener.nudges == 2
    assert (await office.drain()).sent == 1
    with pytest.raises(InvalidInput, match="no target is called"):
        await office.outbox.resume("elsewhere")


# ---- sending at once ---------------------------------------------------------------------------


def test_a_message_is_sent_at_once_to_its_targets_but_never_to_a_protected_one(
    tmp_path: Path,
) -> None:
    async def main(office: PostOffice) -> None:
        await office.enqueue("before")
        [mine] = await office.enqueue("a", targets=["local", "staging", "production"])
        office.sender.answers["staging"] = DOWN

        results = await office.outbox.send(mine)

        assert [(each.target, each.sent, each.failed) for each in results] == [
            ("local", 1, 0),
            ("staging", 0, 1),
        ]
        assert office.sender.keys == ["a", "a"]
        assert await office.states("production") == {"a": "pending"}
        assert await office.states("local") == {"before": "pending", "a": "sent"}

    targets = target(), target("staging"), target("other"), target("production", protected=True)
    in_post_office(tmp_path, main, *targets)


@as_test(in_post_office, target("slow"), target())
async def test_a_message_is_sent_to_its_targets_at_the_same_time(office: PostOffice) -> None:
    [mine] = await office.enqueue("a", targets=["slow", "local"])
    office.sender.takes_s = {"slow": 30.0, "local": 1.0}
    began_s = office.clock.monotonic()

    results = await office.outbox.send(mine)

    # The one that is slow is named first, and the other does not wait for it
    assert [(each.target, each.sent) for each in results] == [("slow", 1), ("local", 1)]
    begun_s = {name: at - began_s for _, name, at in office.sender.begun}
    assert begun_s["local"] < 1 and begun_s["slow"] < 1
    assert office.clock.monotonic() - began_s < 31


@as_test(in_post_office, target(), target("slow"))
async def test_if_the_store_fails_for_one_target_the_others_are_finished_first(
    office: PostOffice,
) -> None:
    [mine] = await office.enqueue("a", targets=["slow", "local"])
    office.sender.takes_s = {"slow": 30.0}
    store: Any = office.real_store
    claim = store.claim

    async def failing(name: str, *rest: Any, **named: Any) -> Any:
        if name == "local":
            raise StoreUnavailable("it is away")
        return await claim(name, *rest, **named)

    store.claim = failing
    with pytest.raises(StoreUnavailable):
        await office.outbox.send(mine)

    assert await office.states("slow") == {"a": "sent"}
    assert await office.states("local") == {"a": "pending"}


@as_test(in_post_office, target("alpha"), target("beta"), target())
async def test_a_message_is_sent_though_targets_of_old_are_not_configured_any_more(
    office: PostOffice,
) -> None:
    [mine] = await office.enqueue("a", targets=["alpha", "beta", "local"])
    now = PostOffice(office.world, office.real_store.database)

    [result] = await now.outbox.send(mine)

    assert (result.target, result.sent) == ("local", 1)
    with pytest.raises(NotFound, match="there is no message 'message_0'"):
        await now.outbox.send("message_0")


@with_world
async def test_without_a_target_nothing_can_be_sent(world: World) -> None:
    app = await world.app(topics=[TOPIC])
    with pytest.raises(InvalidInput, match=r"^targets: none is configured"):
        await app.outbox.drain(target())
    with pytest.raises(InvalidInput, match="no target is called 'local'"):
        await app.outbox.submit("orders", {})


# ---- settings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"interval_s": 0}, "outbox_interval_s"),
        ({"interval_s": -1}, "outbox_interval_s"),
        ({"batch_limit": 0}, "outbox_batch_limit"),
        ({"batch_limit": BATCH_MAX + 1}, "outbox_batch_limit"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}: must be"):
        OutboxSettings(**given)


# ---- the worker of a target --------------------------------------------------------------------


def worker_of(office: PostOffice, name: str = "local") -> TargetWorker:
    """The background worker of a target."""
    chosen = office.targets.get(name)
    return TargetWorker(office.drainer, chosen, SETTINGS, signal=office.signal, clock=office.clock)


@with_post_office
async def test_a_worker_sends_batch_after_batch_and_rests_when_nothing_is_left(
    office: PostOffice,
) -> None:
    await office.enqueue(*names(7))
    worker = worker_of(office)

    rests_s = [await worker.run_once() for _ in range(3)]

    assert rests_s == [0.0, 0.0, INTERVAL_S]
    # After a full batch there is surely more: nobody asks when that is due.
    assert office.store.calls.count("next_due_s") == 1
    assert len(office.sender.begun) == 7
    assert worker.name == "outbox.local"


@with_post_office
async def test_a_worker_rests_until_the_next_delivery_is_due(office: PostOffice) -> None:
    await office.enqueue("a")
    office.sender.default = DOWN
    worker = worker_of(office)

    first_s = await worker.run_once()
    assert 7.5 <= first_s <= 10
    await office.clock.sleep(first_s)
    assert 15 <= await worker.run_once() <= 20
    # However long it takes: no rest is longer than the interval
    rests_s = []
    for _ in range(3):
        await office.clock.sleep(1000)
        rests_s.append(await worker.run_once())
    assert rests_s[-1] == max(rests_s) == INTERVAL_S
    assert (await office.deliveries())["a"].state is DeliveryState.FAILED


@pytest.mark.parametrize(
    ("asked_s", "rest_s"),
    [(None, INTERVAL_S), (5.0, INTERVAL_S), (900.0, 900.0), (1e9, RETRY_AFTER_S_MAX)],
)
@with_post_office
async def test_a_target_that_is_down_is_left_alone_and_no_signal_shortens_it(
    office: PostOffice, asked_s: float | None, rest_s: float
) -> None:
    await office.enqueue(*names(9))
    office.sender.default = SendFailure("it answered 503", asked_s)
    worker = worker_of(office)
    assert await worker.run_once() == rest_s
    before = len(office.sender.begun)

    # When a signal comes before the rest is over
    await office.clock.sleep(rest_s - 1)
    assert await worker.run_once() == pytest.approx(1.0)
    assert len(office.sender.begun) == before

    # Then it is only asked again afterwards
    await office.clock.sleep(1)
    office.sender.default = Acceptance()
    await worker.run_once()
    assert len(office.sender.begun) > before


@with_post_office
async def test_a_signal_wakes_a_worker_that_rests(office: PostOffice) -> None:
    worker = worker_of(office)
    await worker.start()
    await office.clock.sleep(5)

    await office.enqueue("a")
    await office.clock.sleep(1)
    assert await office.states() == {"a": "sent"}

    # Without a signal, a message is found at the interval
    other = PostOffice(office.world, office.real_store.database)
    await other.enqueue("b")
    await office.clock.sleep(INTERVAL_S - 10)
    assert (await office.states())["b"] == "pending"
    await office.clock.sleep(10)

    assert (await office.states())["b"] == "sent"
    await worker.stop()


@with_post_office
async def test_a_stopped_target_is_tried_once_by_each_new_process(office: PostOffice) -> None:
    # Given a target that was stopped by another process, with nothing due yet
    await office.store.stop_target("local", "it answered 401")
    office.sender.default = WRONG_KEY
    worker = worker_of(office)
    assert await worker.run_once() == INTERVAL_S

    # When there are messages, one of them is tried, and only once
    await office.enqueue("a", "b")
    for _ in range(3):
        assert await worker.run_once() == INTERVAL_S
    assert len(office.sender.begun) == 1

    # Then a new process, with the right key, sends all
    office.sender.default = Acceptance()
    await worker.run_once()
    assert len(office.sender.begun) == 1
    await worker_of(office).run_once()
    assert set((await office.states()).values()) == {"sent"}


@pytest.mark.fault(31)
@as_test(in_post_office, target("slow"), target("down"), target())
async def test_one_target_that_is_slow_or_down_does_not_delay_another(office: PostOffice) -> None:
    await office.enqueue(*names(9), targets=["local", "slow", "down"])
    office.sender.takes_s["slow"] = 1000.0
    office.sender.answers["down"] = DOWN
    began_s = office.clock.monotonic()
    workers = [worker_of(office, name) for name in office.targets.names]
    for worker in workers:
        await worker.start()

    await office.clock.sleep(1)

    assert set((await office.states("local")).values()) == {"sent"}
    sent_s = [at for _, name, at in office.sender.begun if name == "local"]
    assert max(sent_s) - began_s < 1
    await asyncio.gather(*(worker.stop() for worker in workers))
    assert "sending" not in (await office.states("slow")).values()


@with_post_office
async def test_a_worker_survives_an_outage_of_the_store(office: PostOffice) -> None:
    await office.enqueue("a")
    office.store.fail_before["claim"] = 2
    worker = worker_of(office)
    await worker.start()
    await office.clock.sleep(10)

    assert await office.states() == {"a": "sent"}
    await worker.stop()
    await worker.stop()


# ---- in an application -------------------------------------------------------------------------


async def application(world: World, *syncs: Sync, **parts: Any) -> tuple[App, ScriptedSender]:
    """An application with a topic and a target, and what its messages are sent by."""
    given: dict[str, Any] = {"targets": [target()], "topics": [TOPIC], **parts}
    app = await world.app(*syncs, transport=ScriptedTransport(), **given)
    sender = ScriptedSender(world.clock)
    app.outbox.drainer.sender = sender
    return app, sender


async def states(outbox: Outbox) -> list[str]:
    """The states of all deliveries, in order."""
    return [each.state.value for each in await outbox.list(limit=1000)]


@with_world
async def test_a_message_that_is_committed_with_other_rows_wakes_the_worker(world: World) -> None:
    app, _ = await application(world)
    await app.supervisor().start()
    await world.clock.sleep(5)

    await app.write(lambda tx: app.outbox.enqueue(tx, "orders", {"a": 1}))
    await world.clock.sleep(1)

    assert await states(app.outbox) == ["sent"]


@with_world
async def test_only_a_write_with_a_message_wakes_anybody_and_only_after_its_commit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a write with a message that is not committed when another write ends
    app, _ = await application(world)
    woken: list[tuple[str, list[str]]] = []
    committing, ended = asyncio.Event(), asyncio.Event()
    write = app._database.write

    async def slow(operation: Any) -> Any:
        if committing.is_set():
            return await write(operation)

        def noted(tx: Connection) -> Any:
            result = operation(tx)
            committing.set()
            return result

        written = await write(noted)
        await ended.wait()
        return written

    async def announce(topic: str, *_: object, **__: object) -> None:
        woken.append((topic, await states(app.outbox)))

    monkeypatch.setattr(app._database, "write", slow)
    monkeypatch.setattr(app._runtime.signal, "announce", announce)
    first = asyncio.create_task(app.write(lambda tx: app.outbox.enqueue(tx, "orders", {"a": 1})))
    await committing.wait()

    # When the other ends, which has no message
    await app.write(lambda tx: tx.execute(sa.select(1)).scalar())
    assert woken == []

    # Then the first one wakes the workers when it is committed
    ended.set()
    await first
    assert woken == [(OUTBOX, ["pending"])]


@with_world
async def test_a_supervisor_starts_the_workers_of_unprotected_targets_only(world: World) -> None:
    production = target("production", protected=True)
    app, sender = await application(world, targets=[target(), production])
    assert [each.name for each in target_workers(app._runtime, app.outbox.drainer, SETTINGS)] == [
        "outbox.local"
    ]
    await app.outbox.submit("orders", {}, targets=["local", "production"])
    await app.supervisor().start()

    await world.clock.sleep(1000)

    assert [name for _, name, _ in sender.begun] == ["local"]
    assert sorted(await states(app.outbox)) == ["pending", "sent"]


@with_world
async def test_a_worker_process_stops_within_its_grace_period(world: World) -> None:
    # Given a message under way that takes a while, and one behind it
    app, sender = await application(world, worker=WorkerSettings(grace_s=20))
    sender.takes_s["local"] = 10.0
    for number in range(2):
        await app.outbox.submit("orders", number)
    supervisor = app.supervisor()
    await supervisor.start()
    await world.clock.sleep(3)

    await supervisor.stop()

    # Then it is finished, and the other is free for anybody
    assert world.clock.monotonic() < 11
    assert await states(app.outbox) == ["sent", "pending"]
    assert len(app.outbox.drainer.claims) == 0


@with_dying_workers
async def test_what_takes_longer_than_the_grace_period_is_left_to_its_lease(world: World) -> None:
    app, sender = await application(world, worker=WorkerSettings(grace_s=20))
    other, _ = await application(world)
    sender.takes_s["local"] = 1000.0
    await app.outbox.submit("orders", {})
    host = world.loop.host("first")
    supervisor = app.supervisor()
    await host.spawn(supervisor.start())
    await world.clock.sleep(3)

    await host.spawn(supervisor.stop())
    assert world.clock.monotonic() < 30
    host.crash()

    await other.supervisor().start()
    await world.clock.sleep(200)
    [delivery] = await other.outbox.list(limit=9)
    assert (delivery.state, delivery.crashes) == (DeliveryState.SENT, 1)


@with_world
async def test_a_worker_deletes_messages_that_were_sent_long_ago(world: World) -> None:
    keep = timedelta(seconds=1.5 * PRUNE_EVERY_S)
    worker = WorkerSettings(outbox=OutboxSettings(keep_sent=keep))
    app, sender = await application(world, worker=worker)
    sender.answers["dead"] = NEVER
    for key in ("a", "b", "dead"):
        await app.outbox.submit("orders", {}, key=key)
    await app.supervisor().start()
    await world.clock.sleep(1.1 * PRUNE_EVERY_S)
    assert await states(app.outbox) == ["sent", "sent", "dead"]

    await world.clock.sleep(PRUNE_EVERY_S)

    assert await states(app.outbox) == ["dead"]
    left = await app.read(lambda tx: tx.execute(sa.select(messages.c.key)).scalars().all())
    assert left == ["dead"]


@with_post_office
async def test_a_pruner_deletes_batch_after_batch_at_its_start_and_then_every_hour(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruner_loop, "PRUNE_SENT_MAX", 2)

    await office.enqueue("a", "b", "c", "dead")
    office.sender.answers["dead"] = NEVER
    await office.drain()
    keep = timedelta(days=1)
    await office.clock.sleep(keep.total_seconds() - 10)
    pruner = sent_pruner(office.store, keep, office.clock)

    # Too early yet
    await pruner.start()
    await office.clock.sleep(20)
    assert len(await office.states()) == 4

    await office.clock.sleep(PRUNE_EVERY_S)
    assert await office.states() == {"dead": "dead"}
    # A batch of two, one of one, and one that found nothing more, after the first look
    assert office.store.calls.count("purge_sent") == 4
    await pruner.stop()


# ---- messages of chunks ------------------------------------------------------------------------


def two_pages(*bad: Any) -> ScriptedSource:
    """A source of two chunks with a message each; the second one may have a bad one."""

    async def read(ctx: Context) -> Chunk:
        page = 1 if ctx.cursor is None else 2
        found = [ChunkMessage(topic="orders", payload={"page": page}), *(bad if page == 2 else ())]
        return Chunk(
            records=[Record(f"page {page}", {})],
            messages=found,
            cursor="next" if page == 1 else None,
        )

    return ScriptedSource(read)


async def run_job(world: World, app: App, *wanted: JobState) -> str:
    """The id of a job that has run until it is in one of these states, or has ended."""
    job = (await app.jobs.submit("pages", user_id="ada")).job
    await world.until(app, job.id, *wanted)
    return job.id


@with_world
async def test_messages_are_enqueued_with_their_chunk_and_sent_at_once(world: World) -> None:
    app, sender = await application(world, Sync(name="pages", source=two_pages()))
    await app.supervisor().start()
    await world.clock.sleep(5)

    job_id = await run_job(world, app)
    await world.clock.sleep(1)

    assert sender.keys == [f"{job_id}:0:0", f"{job_id}:1:0"]
    assert await states(app.outbox) == ["sent", "sent"]
    found = await app.outbox.list(DeliveryFilter(run_id=job_id, user_id="ada"), limit=9)
    assert len(found) == 2


@with_world
async def test_messages_of_a_chunk_that_fails_are_not_enqueued(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a store that refuses the first chunk twice
    app, sender = await application(world, Sync(name="pages", source=two_pages()))
    settle, left = cast(SqlJobs, app._runtime.jobs).settle_in, [2]

    def refusing(tx: Any, now: Any, batch: Any) -> Any:
        settled = settle(tx, now, batch)
        if left[0] and any(work is not None for _, work in batch):
            raise Transient("the disk is full")
        return settled

    monkeypatch.setattr(app._runtime.jobs, "settle_in", refusing)
    await app.supervisor().start()
    job_id = await run_job(world, app, JobState.PENDING)
    await world.clock.sleep(0.5)
    assert await states(app.outbox) == []

    # When it is taken, each message is there once
    left[0] = 0
    await world.until(app, job_id)
    await world.clock.sleep(1)
    assert sender.keys == [f"{job_id}:0:0", f"{job_id}:1:0"]


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (ChunkMessage(topic="unknown", payload={}), r"messages[1].topic: no topic is called"),
        (ChunkMessage(topic="orders", payload=object()), r"messages[1].payload: "),
        (ChunkMessage(topic="orders", payload={}, key="ü"), r"messages[1].key: must be 1 to 200"),
        (ChunkMessage(topic="orders", payload={}, key="taken"), r"messages[1].key: it was used"),
        ("a text", r"messages[1]: is a str; write a headgate.ChunkMessage"),
    ],
)
@with_world
async def test_a_bad_message_fails_its_job_at_once_and_nobody_else_is_blamed(
    world: World, bad: Any, told: str
) -> None:
    other = Sync(name="good pages", source=two_pages())
    app, _ = await application(world, Sync(name="pages", source=two_pages(bad)), other)
    await app.outbox.submit("orders", {"of": "another"}, key="taken")
    await app.supervisor().start()

    job_id = await run_job(world, app)

    job = await app.jobs.get(job_id)
    assert (job.state, job.reason, job.attempts) == (JobState.FAILED, Reason.REFUSED, 0)
    assert job.error is not None
    assert job.error.startswith(f"UnsendableMessage: {told}")
    status = await app.jobs.status(job_id)
    assert "not set up right on our side" in status.message
    assert not status.retryable
    # The first chunk counts; of the second nothing was stored or enqueued
    assert job.steps == 1
    assert len(await app.records.list("pages", "ada", limit=9)) == 1
    assert len(await states(app.outbox)) == 2
    # The source has done nothing wrong, so its other jobs go on
    done = (await app.jobs.submit(other.name, user_id="ada")).job
    await world.until(app, done.id)
    assert (await app.jobs.get(done.id)).state is JobState.SUCCESS


@with_world
async def test_nothing_of_a_chunk_with_a_bad_message_is_handed_on(world: World) -> None:
    written: list[Any] = []

    class Noting:
        name = "ledger"

        async def write(self, batch: Any) -> None:
            written.append(batch)

    sync = Sync(name="pages", source=two_pages("a text"), destination=Noting())
    app, _ = await application(world, sync)
    await app.supervisor().start()

    await run_job(world, app)

    assert len(written) == 1


@with_world
async def test_messages_are_of_whoever_a_job_may_be_of(world: World) -> None:
    user = "jürgen@example.com"
    app, _ = await application(world, Sync(name="pages", source=two_pages()))
    await app.supervisor().start()
    await app.write(lambda tx: app.outbox.enqueue(tx, "orders", {}, user_id=user, run_id="ü"))

    job = (await app.jobs.submit("pages", user_id=user)).job
    await world.until(app, job.id)
    await world.clock.sleep(1)

    assert (await app.jobs.get(job.id)).state is JobState.SUCCESS
    found = await app.outbox.list(DeliveryFilter(user_id=user), limit=9)
    assert [each.state.value for each in found] == ["sent"] * 3


@with_post_office
async def test_what_a_drain_leaves_behind_can_be_counted(office: PostOffice) -> None:
    await office.enqueue("a", "b", run_id="run-1")
    await office.enqueue("c")
    office.sender.answers["a"] = DOWN
    await office.drain()

    left = await office.outbox.backlog(office.targets.get("local"))
    other = await office.outbox.backlog(office.targets.get("local"), run_id="run-2")

    failed = (await office.deliveries())["a"]
    assert (left.waiting, left.claimed) == (1, 0)
    assert left.next_attempt_at == failed.next_attempt_at
    assert (other.waiting, other.next_attempt_at) == (0, None)

    # And so can what one would send now: a has failed, and waits for its next attempt
    await office.enqueue("d", run_id="run-1")
    await office.enqueue("e")
    assert await office.outbox.count_due(LOCAL) == 2
    assert await office.outbox.count_due(LOCAL, run_id="run-1") == 1
