"""Imports against the emulated Foursquare, in virtual time: what is read, stored and retried."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from headgate import ConnectionState, JobState, NotFound, Reason
from headgate.errors import ActiveJobExists, NotConnected
from headgate.types import Job
from headgate_sandbox.foursquare.limits import Limits
from headgate_sandbox.foursquare.world import NewCheckin
from headgate_sandbox.kit.faults import Fault, FaultKind
from tests.connecting import database_bytes
from tests.flow.logs import lines, told
from tests.systems.daily_checkins.places import CHECKINS, WorldPlace, in_place
from tests.worlds import as_test

MIDNIGHT = datetime(2026, 1, 2, tzinfo=UTC)
DAY = timedelta(days=1)
HOURS_S = 10_000.0


def counts(job: Job) -> tuple[int, int]:
    return job.summary.inserted, job.summary.updated


def test_the_token_is_in_no_log_and_not_readable_in_the_database(tmp_path: Path) -> None:
    tokens: list[str] = []

    async def main(place: WorldPlace) -> None:
        await place.connect()
        place.foursquare.faults.next(FaultKind.SERVER_ERROR, path=CHECKINS, times=4)
        job = await place.run()
        sent = [dict(parse_qsl(urlsplit(each.url).query)) for each in place.wire.sent]
        tokens.extend({each["oauth_token"] for each in sent if "oauth_token" in each})
        assert tokens and tokens[0] not in repr(job)

    with told() as stream:
        in_place(tmp_path, main)
    written = stream.getvalue().encode() + database_bytes(tmp_path)
    assert tokens[0].encode() not in written


# ---- what is read ------------------------------------------------------------------------------


@as_test(in_place, page=50, checkins=140)
async def test_the_first_import_reads_everything_and_the_next_what_is_new(
    place: WorldPlace,
) -> None:
    connection = await place.connect()
    first = await place.run()

    # Everything is there once, after three full pages, a short one and one that ends it.
    assert (first.state, counts(first)) == (JobState.SUCCESS, (140, 0))
    assert await place.stored_ids() == place.ids(connection)
    assert place.asked == 4

    # Nothing new takes one request.
    quiet = await place.run()
    assert (counts(quiet), place.asked) == ((0, 0), 5)

    # What is new is read, and only that is stored.
    await place.clock.sleep(3600)
    new = place.foursquare.add_checkin(NewCheckin(venue_name="Lighthouse", shout="Windy"))
    second = await place.run()
    assert counts(second) == (1, 0)
    newest = (await place.stored())[0]
    assert (newest.id, newest.venue.name, newest.shout) == (new.id, "Lighthouse", "Windy")
    assert newest.imported_at == newest.updated_at == second.finished_at


@as_test(in_place)
async def test_a_full_import_finds_what_was_lost_and_what_has_changed(place: WorldPlace) -> None:
    connection = await place.connect()
    await place.run()
    old = place.clock.now() - 30 * DAY
    late = place.foursquare.add_checkin(NewCheckin(created_at=old))
    assert counts(await place.run()) == (0, 0)

    whole = await place.run(full=True)

    assert counts(whole) == (1, 0)
    assert late.id in await place.stored_ids()
    assert await place.stored_ids() == place.ids(connection)


@as_test(in_place, page=5, works=False, checkins=60)
async def test_a_worker_that_dies_in_the_middle_loses_nothing_and_stores_nothing_twice(
    place: WorldPlace,
) -> None:
    # Given a worker that dies after a few pages
    connection = await place.connect()
    dying = place.world.loop.host("dying")
    await dying.spawn(place.app.supervisor().start())
    slow = Fault(kind=FaultKind.SLOW, path=CHECKINS, seconds=2)
    place.foursquare.faults.add(slow)
    job = await place.start()
    await place.clock.sleep(9)
    dying.crash()
    begun = await place.stored_ids()
    assert 0 < len(begun) < 60

    # When another one comes
    await place.app.supervisor().start()
    done = await place.world.until(place.app, job.id)

    # Then it goes on where the first one was
    assert (done.state, done.summary.crashes) == (JobState.SUCCESS, 1)
    assert counts(done) == (60, 0)
    assert await place.stored_ids() == place.ids(connection)


@as_test(in_place)
async def test_each_user_has_their_own_check_ins(place: WorldPlace) -> None:
    ada, bob = await place.connect("ada"), await place.connect("bob")
    await place.run("ada")
    await place.run("bob")

    assert await place.stored_ids("ada") == place.ids(ada)
    assert await place.stored_ids("bob") == place.ids(bob)
    [first, *_] = await place.stored("ada")
    assert (await place.check_ins.get(first.id, user_id="ada")).id == first.id
    with pytest.raises(NotFound):
        await place.check_ins.get(first.id, user_id="bob")

    # The same account of two users is two users' data.
    await place.connect("eve", account=ada.external_id)
    await place.run("eve")
    assert await place.stored_ids("eve") == place.ids(ada)


# ---- one import at a time ----------------------------------------------------------------------


@as_test(in_place)
async def test_an_import_that_runs_is_left_alone_and_named(place: WorldPlace) -> None:
    await place.connect()
    job = await place.start()

    for full in (False, True):
        with pytest.raises(ActiveJobExists) as active:
            await place.start(full=full)
        assert active.value.job_id == job.id

    done = await place.world.until(place.app, job.id)
    assert (done.state, done.mode.value) == (JobState.SUCCESS, "since")
    assert len(await place.app.jobs.list(user_id="ada")) == 1


# ---- failures ----------------------------------------------------------------------------------


def requests_at(place: WorldPlace) -> list[float]:
    """When check-ins were asked for, in seconds after the first time."""
    times: list[float] = []

    def note(request: Any) -> None:
        if CHECKINS in request.url:
            times.append(place.clock.monotonic())

    place.wire.before = note
    return times


def after_first(times: list[float]) -> list[float]:
    return [round(each - times[0]) for each in times]


@pytest.mark.parametrize("kind", [FaultKind.SERVER_ERROR, FaultKind.ERROR_IN_200])
@as_test(in_place)
async def test_after_three_retries_at_one_two_and_four_minutes_an_import_has_failed(
    place: WorldPlace, kind: FaultKind
) -> None:
    await place.connect()
    times = requests_at(place)
    place.foursquare.faults.next(kind, path=CHECKINS, times=100)

    job = await place.run()

    assert after_first(times) == [0, 60, 180, 420]
    assert (job.state, job.reason) == (JobState.FAILED, Reason.ATTEMPTS_SPENT)
    assert (job.summary.errors, job.summary.pauses) == (4, 0)


@as_test(in_place)
async def test_a_request_that_gets_no_answer_is_retried_at_the_same_intervals(
    place: WorldPlace,
) -> None:
    await place.connect()
    times = requests_at(place)
    place.foursquare.faults.next(FaultKind.TIME_OUT, path=CHECKINS, times=2)

    job = await place.run()

    waits = [later - earlier for earlier, later in pairwise(times)]
    # Each is counted from when the request was given up, after its 30 seconds.
    assert [round(each) for each in waits[:2]] == [90, 150]
    assert (job.state, job.summary.errors) == (JobState.SUCCESS, 2)


@as_test(in_place, page=5, checkins=12)
async def test_the_third_retry_may_succeed_and_a_page_that_is_stored_is_progress(
    place: WorldPlace,
) -> None:
    connection = await place.connect()
    failures = iter([True, True, True, False, True, True, True, *[False] * 20])
    times = requests_at(place)
    note = place.wire.before

    def before(request: Any) -> None:
        note(request)
        if CHECKINS in request.url and next(failures):
            place.foursquare.faults.next(FaultKind.SERVER_ERROR, path=CHECKINS)

    place.wire.before = before
    job = await place.run()

    assert after_first(times)[:8] == [0, 60, 180, 420, 420, 480, 600, 840]
    assert (job.state, job.summary.errors) == (JobState.SUCCESS, 6)
    assert await place.stored_ids() == place.ids(connection)


@as_test(in_place)
async def test_a_refused_token_needs_its_user_and_uses_up_no_attempt(place: WorldPlace) -> None:
    connection = await place.connect()
    place.foursquare.faults.next(FaultKind.TOKEN_EXPIRED, path=CHECKINS)

    job = await place.run()

    assert (job.state, job.reason) == (JobState.FAILED, Reason.NEEDS_REAUTH)
    assert (job.attempts, place.asked) == (0, 1)
    after = await place.app.connections.get(connection.id)
    assert after.state is ConnectionState.NEEDS_REAUTH
    with pytest.raises(NotConnected, match="sign in again"):
        await place.start()

    # Once they have signed in again, it goes on as if nothing had been.
    again = await place.connect(account=connection.external_id, connection_id=connection.id)
    assert again.id == connection.id
    assert (await place.run()).state is JobState.SUCCESS


@as_test(in_place)
async def test_a_spent_hour_waits_for_its_end_and_uses_up_no_attempt(place: WorldPlace) -> None:
    await place.connect("ada")
    await place.connect("bob")
    place.foursquare.faults.next(FaultKind.RATE_LIMITED, path=CHECKINS)
    times = requests_at(place)
    job = await place.start("ada")
    await place.clock.sleep(1)

    waiting = await place.app.jobs.get(job.id)
    assert (waiting.state, waiting.reason) == (JobState.PENDING, Reason.RATE_LIMITED)
    # It is that user's hour: another goes on.
    other = await place.run("bob")
    assert (other.state, other.summary.deferrals) == (JobState.SUCCESS, 0)

    done = await place.world.until(place.app, job.id)
    assert (done.state, done.summary.errors) == (JobState.SUCCESS, 0)
    assert done.summary.deferrals == 1
    assert 600 in after_first(times)


@as_test(in_place, lease_s=HOURS_S)
async def test_a_spent_day_waits_for_midnight_for_everybody(place: WorldPlace) -> None:
    await place.connect("ada")
    await place.connect("bob")
    place.foursquare.limited_by = "day"
    place.foursquare.faults.next(FaultKind.RATE_LIMITED, path=CHECKINS)
    mine = await place.start("ada")
    await place.clock.sleep(1)
    asked = place.asked

    # The other one need not ask to know.
    other = await place.start("bob")
    await place.clock.sleep(3600)
    assert place.asked == asked

    for job in (mine, other):
        done = await place.world.until(place.app, job.id)
        assert (done.state, done.summary.errors) == (JobState.SUCCESS, 0)
        assert done.finished_at is not None
        assert timedelta(0) <= done.finished_at - MIDNIGHT < timedelta(minutes=1)


@pytest.mark.thorough
@as_test(in_place, page=2, lease_s=HOURS_S, checkins=600)
async def test_a_long_history_keeps_within_the_hour_by_its_own_count(place: WorldPlace) -> None:
    connection = await place.connect()
    job = await place.run()

    assert (job.state, job.summary.errors) == (JobState.SUCCESS, 0)
    assert place.asked > 500
    assert place.foursquare.meter.overshoot() == 0
    assert job.summary.deferrals >= 1
    assert await place.stored_ids() == place.ids(connection)


@as_test(in_place, page=5, lease_s=HOURS_S, checkins=60, limits=Limits(hour=4, day=9))
async def test_limits_that_are_tighter_than_ours_only_take_longer(place: WorldPlace) -> None:
    connection = await place.connect()
    job = await place.run()

    assert (job.state, job.summary.errors) == (JobState.SUCCESS, 0)
    assert job.summary.deferrals >= 2
    assert await place.stored_ids() == place.ids(connection)


# ---- what is told ------------------------------------------------------------------------------


@as_test(in_place)
async def test_every_import_logs_its_start_and_its_end_with_what_is_new(place: WorldPlace) -> None:
    with told("info") as stream:
        await place.connect()
        await place.run()
        place.foursquare.add_checkin()
        await place.run()
        place.foursquare.faults.next(FaultKind.SERVER_ERROR, path=CHECKINS, times=4)
        await place.run()
        job = await place.start()
        await place.app.jobs.cancel(job.id)
        await place.world.until(place.app, job.id)

    logged = [line for line in lines(stream) if line["event"].startswith("check_ins_")]
    names = [line["event"].removeprefix("check_ins_import_") for line in logged]
    assert names[:6] == ["started", "completed"] * 2 + ["started", "failed"]
    assert names[-1] == "cancelled"
    assert all(line["user"] == "ada" and line["job"] for line in logged)
    assert [logged[at]["new"] for at in (1, 3, 5)] == [10, 1, 0]
    assert (logged[5]["reason"], logged[5]["errors"]) == ("attempts_spent", 4)
    assert "Foursquare" in logged[5]["error"]
    assert logged[5]["level"] == "error"


@as_test(in_place)
async def test_the_status_tells_how_far_a_user_is(place: WorldPlace) -> None:
    before = await place.check_ins.status(user_id="ada")
    assert (before.connection, before.check_ins, before.last_import) == (None, 0, None)
    assert (before.newest_at, before.succeeded_at) == (None, None)

    await place.connect()
    done = await place.run()
    place.foursquare.faults.next(FaultKind.FORBIDDEN, path=CHECKINS)
    asked = place.asked
    failed = await place.run()
    after = await place.check_ins.status(user_id="ada")

    assert (after.connection, after.check_ins) == (ConnectionState.ACTIVE, 10)
    assert after.newest_at == (await place.stored())[0].created_at
    assert after.succeeded_at == done.finished_at
    assert after.last_import is not None
    assert (after.last_import.job_id, after.last_import.state) == (failed.id, JobState.FAILED)
    assert after.last_import.message
    # A denial is the end, though its status is that of a limit: it was asked for once.
    assert (failed.reason, failed.attempts, place.asked) == (Reason.REFUSED, 0, asked + 1)
