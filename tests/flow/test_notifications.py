"""People are told what has become of their jobs: once, in time, and only if they want it."""

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from headgate import (
    App,
    AuthExpired,
    Chunk,
    Context,
    DeliveryState,
    InvalidInput,
    JobState,
    Malformed,
    NotificationRules,
    NotificationSettings,
    Record,
    RetryPolicy,
    Sync,
    Target,
    Topic,
    Transient,
    WorkerSettings,
)
from headgate.base.errors import HeadgateError
from headgate.base.secret import Secret
from headgate.errors import Forbidden
from headgate.loops import notifier
from headgate.loops.notifier import LOOK_EVERY_S
from headgate.loops.supervisor import housekeepers
from headgate.model.delivery import Acceptance, SendFailure, TargetRefusal
from headgate.ports.outbox import DeliveryFilter
from headgate.store.sql.items import removals
from headgate.store.sql.people import notifications as sql_notifications
from headgate.types import Job
from tests.notifying import (
    BY_EMAIL,
    BY_WEBHOOK,
    EMAIL,
    OPERATOR,
    WEBHOOK,
    all_told,
    kinds_told,
    troubles,
)
from tests.outboxes import ScriptedSender
from tests.worlds import (
    START,
    ScriptedSource,
    World,
    as_test,
    in_world,
    lanes,
    with_world,
)

DAY = date(2025, 12, 24)


class Weather:
    """A source that fails with `error`, if there is one, on all days or on one."""

    def __init__(self) -> None:
        self.error: HeadgateError | None = None
        self.bad_day: date | None = None

    async def read(self, ctx: Context) -> Chunk:
        if self.error is not None and self.bad_day in (None, ctx.day):
            raise self.error
        return Chunk(records=[Record("a", {})])


class Place:
    """A worker whose users are notified, and the weather at their provider."""

    def __init__(self, world: World, app: App, weather: Weather) -> None:
        self.world, self.app, self.weather = world, app, weather

    async def run(self, sync: str = "notes", *, mode: str = "full", **fields: Any) -> Job:
        """A job of Ada's, from its beginning to its end."""
        days = {"start_date": DAY, "end_date": DAY} if mode == "history" else {}
        given = {"user_id": "ada", "mode": mode, **days, **fields}
        submitted = await self.app.jobs.submit(sync, **given)
        return await self.world.until(self.app, submitted.job.id)

    async def fails(self, error: HeadgateError, sync: str = "notes", **fields: Any) -> Job:
        """A job that ends with this error."""
        self.weather.error = error
        try:
            job = await self.run(sync, **fields)
        finally:
            self.weather.error = None
        assert job.state is JobState.FAILED
        return job


Main = Callable[[Place], Any]


def in_place(
    folder: Path,
    main: Main,
    settings: NotificationSettings | None = BY_WEBHOOK,
    *,
    retry: RetryPolicy | None = None,
) -> None:
    """Run `main` beside a worker with two syncs, whose targets accept everything."""

    async def opened(world: World) -> None:
        weather = Weather()
        syncs = [
            Sync(
                name=name,
                source=ScriptedSource(weather.read, name="garden"),
                retry=retry or RetryPolicy(attempts_max=2),
            )
            for name in ("notes", "live")
        ]
        app = await world.app(*syncs, notifications=settings, worker=lanes(lease_s=300.0))
        if app._runtime.drainer is not None:
            app._runtime.drainer.sender = ScriptedSender(world.clock)
        await app.supervisor().start()
        await main(Place(world, app, weather))

    in_world(folder, opened)


with_place = as_test(in_place)


# ---- what is told ------------------------------------------------------------------------------


@with_place
async def test_a_failure_is_told_once_and_so_is_its_end(place: Place) -> None:
    # Given jobs that fail, one after another
    first = await place.fails(Forbidden("no"))
    for _ in range(2):
        await place.fails(Forbidden("no"))
    assert await kinds_told(place.app) == ["failed"]
    assert await troubles(place.app) == [("ada", "notes", "failed")]

    # When they succeed again
    for _ in range(3):
        await place.run()

    # Then that is told once too, and a new failure is news
    assert await kinds_told(place.app) == ["failed", "recovered"]
    assert await troubles(place.app) == []
    await place.fails(Forbidden("no"))
    assert await kinds_told(place.app) == ["failed", "recovered", "failed"]

    told = (await all_told(place.app))[0]
    assert (told.targets, told.user_id) == (("notify.webhook",), "ada")
    data = told.notification.data
    assert data.title == "Your import from garden has stopped"
    assert data.message == (
        "garden does not let us read this, so we stopped. What was imported so far is safe. "
        "Ask support, and give them the support code."
    )
    assert data.job is not None and data.job.id == first.id
    assert data.job.operator.error is not None and data.job.operator.error.message == "no"

    # And all are sent at once
    await place.world.clock.sleep(1)
    assert {each.state for each in await place.app.outbox.list(limit=10)} == {DeliveryState.SENT}


@with_place
async def test_whoever_has_to_sign_in_again_hears_it_once_however_many_syncs_stop(
    place: Place,
) -> None:
    await place.fails(AuthExpired("401"), "notes")
    await place.fails(AuthExpired("401"), "live")
    [told] = await all_told(place.app)
    assert told.kind == "needs_reauth"
    assert told.notification.data.title == "garden needs you to sign in again"
    assert await troubles(place.app) == [("ada", "", "needs_reauth")]

    await place.run("live")
    await place.run("notes")
    assert await kinds_told(place.app) == ["needs_reauth", "recovered"]


@with_place
async def test_syncs_and_users_do_not_speak_for_each_other(place: Place) -> None:
    await place.fails(Forbidden("no"))
    await place.fails(Forbidden("no"), "live")
    await place.fails(Forbidden("no"), user_id="bob")
    assert [each.user_id for each in await all_told(place.app)] == ["ada", "ada", "bob"]
    assert await troubles(place.app, user_id="bob") == [("bob", "notes", "failed")]
    [first] = await place.app.notifications.troubles(limit=1)
    after = first.connection_id, first.sync
    assert await troubles(place.app, after=after) == [
        ("ada", "notes", "failed"),
        ("bob", "notes", "failed"),
    ]


def test_gaps_and_counts_are_told_with_the_end(tmp_path: Path) -> None:
    async def main(place: Place) -> None:
        place.weather.error, place.weather.bad_day = Malformed("what?"), DAY
        await place.run(mode="history", user_id="bob")
        place.weather.error = None
        await place.run(mode="history")
        gaps, done = [each.notification.data for each in await all_told(place.app)]
        assert gaps.title == "Your import from garden is done, but something is missing"
        assert gaps.message.startswith("Done, but 1 day could not be read.")
        assert (done.title, done.message) == (
            "Your import from garden is done",
            "Done. 1 record was imported.",
        )

    hasty = RetryPolicy(attempts_max=1, cooldown_s=60.0, pauses_max=1)
    in_place(tmp_path, main, retry=hasty)


# ---- long pauses -------------------------------------------------------------------------------

#: Half an hour is long here, and the breaker opens at the first failure, for five minutes.
LONG_S = 1800.0
SOON = NotificationRules(paused_after=timedelta(seconds=LONG_S))
BY_WEBHOOK_SOON = replace(BY_WEBHOOK, rules=SOON)
BREAKS = RetryPolicy(attempts_max=1, cooldown_s=300.0, pauses_max=1000)


async def pause(place: Place, seconds: float) -> Job:
    """A backfill of two days whose provider has been down for so long."""
    place.weather.error = Transient("503")
    submitted = await place.app.jobs.submit(
        "notes",
        user_id="ada",
        mode="history",
        start_date=DAY - timedelta(days=1),
        end_date=DAY,
    )
    await place.world.clock.sleep(seconds)
    return submitted.job


@as_test(in_place, BY_WEBHOOK_SOON, retry=BREAKS)
async def test_a_long_pause_is_told_and_its_end_too(place: Place) -> None:
    # Given a provider that is down, and is probed again and again
    job = await pause(place, LONG_S - 60)
    assert (await place.app.jobs.get(job.id)).pauses > 3
    assert await kinds_told(place.app) == []

    # When it is down for long
    await place.world.clock.sleep(LOOK_EVERY_S + 120)

    # Then that is told once, with its beginning
    [told] = await all_told(place.app)
    data = told.notification.data
    assert (told.kind, data.paused_at) == ("paused", START)
    assert data.title == "Your import from garden is paused"
    assert data.message.startswith(
        "It has been paused since 2026-01-01 00:00 UTC. Syncing is temporarily paused because "
        "the garden servers are busy. We will automatically resume at 2026-01-01"
    )
    await place.world.clock.sleep(3 * LONG_S)
    assert await kinds_told(place.app) == ["paused"]

    # And that it goes on again, at its first chunk
    place.weather.error = None
    await place.world.until(place.app, job.id)
    told_later = {each.kind: each for each in await all_told(place.app)}
    assert set(told_later) == {"paused", "recovered", "finished"}
    recovered = told_later["recovered"].notification.data
    assert recovered.message.startswith("What we told you about is over, and the import goes")
    assert await troubles(place.app) == []


@as_test(in_place, BY_WEBHOOK_SOON, retry=BREAKS)
async def test_a_forgotten_pause_by_hand_is_told(place: Place) -> None:
    job = await pause(place, 60)
    await place.app.jobs.pause(job.id)
    await place.world.clock.sleep(LONG_S + LOOK_EVERY_S)
    [told] = await all_told(place.app)
    assert told.notification.data.message.endswith("Paused until it is resumed.")

    place.weather.error = None
    await place.app.jobs.resume(job.id)
    await place.world.until(place.app, job.id)
    assert await kinds_told(place.app) == ["paused", "recovered"]
    last = (await all_told(place.app))[1].notification.data
    assert last.message == "What we told you about is over. Done. 2 records were imported."


@as_test(in_place, BY_WEBHOOK_SOON, retry=BREAKS)
async def test_there_may_be_more_long_pauses_than_are_told_at_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "PAUSES_MAX", 2)

    place.weather.error = Transient("503")
    for number in range(5):
        await place.app.jobs.submit("live", user_id=f"user-{number}")
    await place.world.clock.sleep(LONG_S + LOOK_EVERY_S)
    assert await kinds_told(place.app) == ["paused"] * 5


@with_place
async def test_a_worker_has_no_service_for_what_its_application_does_not_have(place: Place) -> None:
    bare = await place.world.app()
    every_week = WorkerSettings(keep_jobs=timedelta(days=7))

    few = [each.name for each in housekeepers(bare._runtime, WorkerSettings())]
    more = [each.name for each in housekeepers(place.app._runtime, every_week)]

    rows = ("events", "workers", "items", "ticks")
    assert few == [*(f"pruner.{each}" for each in rows), "eraser"]
    assert set(more) - set(few) == {"pruner.jobs", "pruner.sent", "notifier"}


# ---- who is told -------------------------------------------------------------------------------


@as_test(in_place, BY_EMAIL)
async def test_users_are_told_by_e_mail_and_operators_of_failures(place: Place) -> None:
    await place.app.users.set_preferences("ada", email="ada@example.com")
    await place.fails(AuthExpired("401"))
    await place.fails(Forbidden("no"))
    await place.run()
    await place.run(mode="history")
    told = [(each.kind, each.targets) for each in await all_told(place.app)]
    assert told == [
        ("needs_reauth", ("notify.email",)),
        ("failed", ("notify.email", "notify.operator")),
        ("recovered", ("notify.email", "notify.operator")),
        ("finished", ("notify.email",)),
    ]


@as_test(in_place, NotificationSettings(email=EMAIL))
async def test_whoever_opted_out_or_has_no_address_gets_no_delivery(place: Place) -> None:
    await place.app.users.set_preferences("ada", email="ada@example.com", notify=False)
    await place.fails(AuthExpired("401"))
    await place.fails(AuthExpired("401"), user_id="bob")
    assert await all_told(place.app) == []
    assert await troubles(place.app) == []

    # What nobody was told is still news, and its end is not.
    await place.run(user_id="bob")
    await place.app.users.set_preferences("ada", notify=True)
    await place.fails(AuthExpired("401"))
    assert [each.user_id for each in await all_told(place.app)] == ["ada"]


@as_test(in_place, None)
async def test_an_address_counts_as_long_as_its_user_wants_notifications(place: Place) -> None:
    users = place.app.users
    assert await users.email_of("ada") is None
    await users.set_preferences("ada", email="ada@example.com")
    assert await users.email_of("ada") == "ada@example.com"
    await users.set_preferences("ada", notify=False)
    assert await users.email_of("ada") is None


def test_a_long_pause_that_nobody_can_be_told_of_is_not_looked_at_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    announce = sql_notifications.announce

    def counted(*args: Any) -> Any:
        asked.append("")
        return announce(*args)

    monkeypatch.setattr(sql_notifications, "announce", counted)

    async def main(place: Place) -> None:
        await place.app.users.set_preferences("ada", email="ada@example.com", notify=False)
        job = await pause(place, 60)
        await place.app.jobs.pause(job.id)
        asked.clear()
        await place.world.clock.sleep(3 * LONG_S)
        assert len(asked) == 1
        assert await all_told(place.app) == []

    settings = NotificationSettings(email=EMAIL, rules=SOON)
    in_place(tmp_path, main, settings, retry=BREAKS)


@with_place
async def test_a_removed_connection_is_not_told_to_be_reconnected(place: Place) -> None:
    await place.fails(Forbidden("no"))
    database = place.app._database
    await database.write(lambda tx: removals.note(tx, database.moment(), "ada"))
    assert await troubles(place.app) == []
    await place.fails(AuthExpired("there is no connection"))
    assert await kinds_told(place.app) == ["failed"]
    assert await troubles(place.app) == []


# ---- nobody is notified ------------------------------------------------------------------------


@as_test(in_place, None)
async def test_without_settings_nothing_is_looked_up(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*args: Any) -> None:
        raise AssertionError("nobody is notified")

    monkeypatch.setattr(sql_notifications, "tell", never)

    await place.fails(Forbidden("no"))
    await place.run(mode="history")
    assert place.app._runtime.notifications is None
    assert place.app.notifications.settings is None


# ---- the topic of notifications ----------------------------------------------------------------


@with_world
async def test_other_messages_do_not_go_to_those_who_are_notified(world: World) -> None:
    shop = Target(name="shop", url="https://shop.example.com", key=Secret("k3y"))
    orders = Topic(name="orders", path="/v1/orders", targets=("shop",))
    app = await world.app(topics=[orders], targets=[shop], notifications=BY_WEBHOOK)
    with pytest.raises(InvalidInput, match=r"notify\.webhook takes no messages of the topic"):
        await app.outbox.submit("orders", {}, targets=["notify.webhook"])
    await app.outbox.submit("orders", {})
    for replay in (app.outbox.replay, app.outbox.count_replayable):
        with pytest.raises(InvalidInput, match="when they are new, or not at all"):
            await replay(WEBHOOK, since=START)
    assert await app.outbox.count_due(WEBHOOK) == 0
    assert await app.outbox.count_due(shop) == 1


# ---- tests by hand -----------------------------------------------------------------------------


def in_office(folder: Path, main: Callable[[World, App, ScriptedSender], Any]) -> None:
    """Run `main` with an application that notifies by every means; no worker runs."""

    async def opened(world: World) -> None:
        settings = NotificationSettings(webhook=WEBHOOK, email=EMAIL, operator_email=OPERATOR)
        app = await world.app(notifications=settings)
        sender = ScriptedSender(world.clock)
        app._runtime.drainer.sender = sender  # type: ignore[union-attr]
        await main(world, app, sender)

    in_world(folder, opened)


with_office = as_test(in_office, gives=3)


@with_office
async def test_a_test_is_sent_at_once_by_the_same_way(
    world: World, app: App, sender: ScriptedSender
) -> None:
    tested = await app.notifications.test(WEBHOOK)
    assert (tested.delivery.state, tested.stop) == (DeliveryState.SENT, None)
    await app.notifications.test(EMAIL, to="eve@example.com")
    await app.notifications.test(OPERATOR)
    told = await all_told(app)
    assert [each.kind for each in told] == ["test"] * 3
    assert [each.notification.data.to for each in told] == [None, "eve@example.com", None]
    assert all(each.notification.data.job is None for each in told)


@with_office
async def test_a_test_says_what_went_wrong(world: World, app: App, sender: ScriptedSender) -> None:
    sender.default = SendFailure("it answered 503")
    tested = await app.notifications.test(WEBHOOK)
    assert (tested.delivery.state, tested.delivery.error) == (
        DeliveryState.FAILED,
        "it answered 503",
    )
    sender.default = TargetRefusal("it answered 410: it is gone")
    tested = await app.notifications.test(WEBHOOK)
    assert tested.stop is not None and "410" in tested.stop.reason
    # A test tells it, and stops nothing for the workers.
    assert await app.outbox.stopped_targets() == {}
    # A target that has stopped is tried all the same.
    sender.default = Acceptance()
    tested = await app.notifications.test(WEBHOOK)
    assert (tested.delivery.state, tested.stop) == (DeliveryState.SENT, None)


@pytest.mark.parametrize("takes_s", [5.0, 600.0])
@with_office
async def test_a_worker_may_be_faster_than_the_test(
    world: World, app: App, sender: ScriptedSender, takes_s: float
) -> None:
    # Given a worker that takes every message before anybody else, and takes its time
    sender.takes_s = {"notify.webhook": takes_s}
    drain = app.outbox.drain

    async def too_late(target: Target, scope: Any = None, **more: Any) -> Any:
        busy = world.loop.create_task(drain(target))
        await world.clock.sleep(1)
        tasks.append(busy)

    tasks: list[Any] = []
    app.outbox.drain = too_late  # type: ignore[method-assign]
    tested = await app.notifications.test(WEBHOOK)

    ended = DeliveryState.SENT if takes_s < 60 else DeliveryState.SENDING
    assert tested.delivery.state is ended
    for task in tasks:
        await task


@pytest.mark.parametrize("to", [None, "", "eve", "eve@example.com\nBcc: all@example.com"])
@with_office
async def test_a_test_by_e_mail_needs_an_address(
    world: World, app: App, sender: ScriptedSender, to: str | None
) -> None:
    with pytest.raises(InvalidInput, match=r"^to: must be an e-mail address"):
        await app.notifications.test(EMAIL, to=to)
    with pytest.raises(InvalidInput, match=r"^to: notify.webhook sends no e-mails"):
        await app.notifications.test(WEBHOOK, to="eve@example.com")
    assert await app.outbox.list(DeliveryFilter(), limit=1) == []


# ---- settings ----------------------------------------------------------------------------------


def test_settings_that_cannot_work_are_refused() -> None:
    plain = Target(name="hook", url="https://hooks.example.com", key=Secret("k3y"))
    with pytest.raises(InvalidInput, match=r"^notifications.webhook: needs a secret that signs"):
        NotificationSettings(webhook=plain)
    with pytest.raises(InvalidInput, match=r"^notifications.email: goes to users"):
        NotificationSettings(email=OPERATOR)
    with pytest.raises(InvalidInput, match=r"^notifications.operator_email: name its recipient"):
        NotificationSettings(operator_email=EMAIL)
