"""The live sync beside the import: recent days stay fresh, and no exercise is imported twice.

What is true is what the two sandboxes know: which exercises there are, which files were asked for,
and which activities there are.
"""

from datetime import date, timedelta
from typing import Any

import pytest

from headgate import App, Budget, JobState, Limit, Mode, Reason, WorkerSettings
from headgate.connectors.fitbit.recent import DAYS_LEFT_OUT
from headgate.connectors.strava.uploads import POLL_PAUSES_S
from headgate.errors import ActiveJobExists
from headgate.systems.health_history.settings import LIVE_DAYS
from headgate.systems.health_history.syncs import LIVE, NAME
from headgate.types import Job
from headgate_sandbox.google_health.exercise import Exercise
from headgate_sandbox.google_health.world import NewExercise
from headgate_sandbox.kit.faults import Fault, FaultKind
from tests.health import LAST, Site, all_records, days_back, start, start_live
from tests.systems.health_history.places import (
    UPLOADS,
    check_what_is_remembered,
    connected,
    sporty,
    until,
    uploads,
)
from tests.worlds import START, World, kinds, lanes, with_dying_workers, with_world

pytestmark = pytest.mark.slow

#: The days that a live sync reads when virtual time begins; tomorrow is among them.
RECENT = [START.date() + timedelta(days=number) for number in range(1 - LIVE_DAYS, 2)]


def exports(site: Site) -> int:
    """Files that were asked of Google."""
    return sum(":exportExerciseTcx" in each.url for each in site.wire.sent)


def add_run(site: Site, world: World, *, days_ago: float = 0.0) -> Exercise:
    """A run that is at Fitbit from now on, however long ago it was."""
    began = world.clock.now() - timedelta(days=days_ago, hours=1)
    return site.google.add_exercise(NewExercise(start=began, duration_s=1200))


async def run_live(world: World, app: App, **more: Any) -> Job:
    """A live sync, from beginning to end."""
    job = await world.until(app, (await start_live(app, **more)).id)
    assert job.state is JobState.SUCCESS, job.error
    return job


# ---- by itself ---------------------------------------------------------------------------------


@with_world
async def test_recent_days_are_brought_to_strava_and_then_only_what_is_new(world: World) -> None:
    # Given somebody with an exercise a day
    site, app, fitbit, _ = await connected(sporty(world))
    await app.supervisor().start()

    # When the live sync runs, then the last days are at Strava, and their totals are here
    job = await run_live(world, app)
    expected = site.expected_ids(RECENT)
    assert site.external_ids() == expected
    assert len(expected) >= 2
    assert (job.lane.value, job.summary.delivered) == ("hot", len(expected))
    records = await all_records(app, fitbit.id)
    days = {str(each.data["day"]) for key, each in records.items() if key.startswith("day:")}
    assert str(LAST) in days

    # When it runs again, then nothing is exported or sent, and Google is asked seven times
    site.wire.sent.clear()
    again = await run_live(world, app)
    assert (again.summary.delivered, again.summary.delivered_before) == (0, len(expected))
    assert len(site.wire.sent) == 7

    # When they run today, and a watch delivers a run of yesterday, then those two are sent
    runs = [add_run(site, world), add_run(site, world, days_ago=1)]
    site.wire.sent.clear()
    await run_live(world, app)
    new = {f"headgate-fitbit-{each.id}.tcx" for each in runs}
    assert set(site.external_ids()) == {*expected, *new}
    assert (exports(site), uploads(site)) == (2, len(expected) + 2)


@with_world
async def test_after_a_standstill_it_goes_on_where_it_was(world: World) -> None:
    # Given a live sync that has run, and nothing that starts it for ten days
    # With long leases: days pass with few heartbeats.
    site, app, *_ = await connected(sporty(world), worker=WorkerSettings(lease_s=6 * 3600))
    await app.supervisor().start()
    await run_live(world, app)
    await world.clock.sleep(10 * 86400)

    # When it runs again, then every day since is at Strava
    job = await run_live(world, app)
    days = [RECENT[0] + timedelta(days=number) for number in range(15)]
    assert site.external_ids() == site.expected_ids(days)
    assert job.summary.chunks == 2
    assert DAYS_LEFT_OUT not in kinds(await app.jobs.events(job.id))

    # And in mode full it reads only the last days
    site.wire.sent.clear()
    await run_live(world, app, mode=Mode.FULL)
    assert len(site.wire.sent) == 7


@with_world
async def test_a_file_that_strava_refuses_is_not_sent_every_time(world: World) -> None:
    # Given a file that Strava cannot read
    site = sporty(world)
    [exercise] = site.exercises(LAST)
    site.spoilt.add(str(exercise.id))
    app = await site.app()
    await site.connect_both(app)
    await app.supervisor().start()

    # When the live sync runs twice, then it was sent once
    first = await run_live(world, app)
    sent = uploads(site)
    second = await run_live(world, app)
    assert (first.summary.refused, second.summary.refused) == (1, 0)
    assert uploads(site) == sent

    # And an import, which somebody starts, tries it again
    site.spoilt.clear()
    job = await world.until(app, (await start(app, 1)).id)
    assert (job.state, job.summary.delivered) == (JobState.SUCCESS, 1)
    assert uploads(site) == sent + 1
    assert f"headgate-fitbit-{exercise.id}.tcx" in site.external_ids()


# ---- beside the import -------------------------------------------------------------------------


async def covered(app: App, connection_id: str, days: list[date]) -> dict[date, tuple[str, int]]:
    """What is known of each day: its status, and how many records it has."""
    rows = await app.records.coverage(NAME, connection_id, start=min(days), end=max(days))
    assert all(row.error is None for row in rows)
    return {row.day: (row.status.value, row.records) for row in rows}


@pytest.mark.parametrize("first", ["live", "import"])
@with_world
async def test_whichever_is_first_each_exercise_is_sent_once(world: World, first: str) -> None:
    # Given two who run one after the other over the same days
    site, app, fitbit, _ = await connected(sporty(world))
    await app.supervisor().start()

    if first == "live":
        live = await run_live(world, app)
        sent = uploads(site)
        site.wire.sent.clear()
        slow = await world.until(app, (await start(app, 4)).id)
        # The import has asked Google for no file that Strava had already
        assert exports(site) == slow.summary.delivered == 3
        assert slow.summary.delivered_before == 1
    else:
        slow = await world.until(app, (await start(app, 4)).id)
        sent = uploads(site)
        live = await run_live(world, app)
        assert live.summary.delivered_before == 1

    # Then each is at Strava once, and was sent once
    days = days_back(4)
    everything = site.expected_ids(sorted({*days, *RECENT}))
    assert site.external_ids() == everything
    assert uploads(site) == len(everything)
    assert live.summary.delivered + slow.summary.delivered == len(everything) > sent

    # The days of the import are covered as if it had been alone: an exercise and a summary each
    assert (slow.state, slow.summary.days_held) == (JobState.SUCCESS, 4)
    assert await covered(app, fitbit.id, days) == dict.fromkeys(days, ("held", 2))
    assert await app.records.coverage(LIVE, fitbit.id, start=days[-1], end=days[0]) == []
    # The records are in one place, with the activities that were made
    await check_what_is_remembered(site, app, fitbit.id)

    # And nothing is left to do for either
    site.wire.sent.clear()
    again = await world.until(app, (await start(app, 4)).id)
    assert (again.progress.total, site.wire.sent) == (0, [])
    assert (await run_live(world, app)).summary.delivered == 0


@pytest.mark.parametrize(
    "delay_s",
    [1.9, *(pytest.param(late, marks=pytest.mark.thorough) for late in (0.0, 0.7, 2.6, 3.5, 5.0))],
)
@with_world
async def test_both_at_the_same_time_send_each_exercise_once(world: World, delay_s: float) -> None:
    # Given two processes, one with an import and one with a live sync of the same days
    site = sporty(world)
    one, two = await site.app(), await site.app()
    await site.connect_both(one)
    for _ in range(5):
        add_run(site, world, days_ago=1.5)
    await one.supervisor().start()
    await two.supervisor().start()

    slow = await start(one, 3)
    await world.clock.sleep(delay_s)
    live = await start_live(two)
    jobs = [await world.until(one, each.id) for each in (slow, live)]

    # Then both are done, and Strava got each file once
    assert [job.state for job in jobs] == [JobState.SUCCESS] * 2
    assert [job.summary.errors for job in jobs] == [0, 0]
    everything = site.expected_ids(sorted({*days_back(3), *RECENT}))
    assert site.external_ids() == everything
    assert uploads(site) == len(everything)
    assert sum(job.summary.delivered for job in jobs) == len(everything)


@with_world
async def test_live_waits_for_an_import_that_is_sending_the_same_and_not_longer(
    world: World,
) -> None:
    # Given an import that waits for Strava to work on a file of yesterday
    site, app, *_ = await connected(sporty(world, strava={"processing_s": 40.0}))
    await app.supervisor().start()
    slow = await start(app, 1)
    await until(world, lambda: uploads(site) == 1)

    # When the live sync finds the same exercise, then it waits, and says for what
    live = await start_live(app)
    await world.until(app, live.id, JobState.PENDING)
    await world.clock.sleep(5)
    live = await app.jobs.get(live.id)
    assert live.reason is Reason.RECORDS_CLAIMED
    # It asked for the list of exercises alone: no file, no totals
    assert exports(site) == 1

    live, slow = await world.until(app, live.id), await world.until(app, slow.id)
    assert live.finished_at is not None and slow.finished_at is not None
    assert live.finished_at - slow.finished_at < timedelta(seconds=120)
    assert site.external_ids() == site.expected_ids(RECENT)
    assert uploads(site) == len(site.external_ids())


# ---- crashes and late answers ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("crashed", "point"),
    [
        ("live", "uploaded"),
        ("import", "before_commit"),
        pytest.param("live", "before_commit", marks=pytest.mark.thorough),
        pytest.param("import", "uploaded", marks=pytest.mark.thorough),
    ],
)
@with_dying_workers
async def test_a_crash_after_an_upload_makes_no_second_activity(
    world: World, crashed: str, point: str
) -> None:
    # Given a process that dies after an upload, before it is committed
    site = sporty(world)
    first, second = await site.app(), await site.app()
    fitbit, _ = await site.connect_both(first)
    host = world.loop.host("first")
    if point == "before_commit":

        async def dying(*_: object, **__: object) -> object:
            return await host.crash_here()

        first._runtime.jobs.settle = dying  # type: ignore[assignment, method-assign]
    one = await (start_live(first) if crashed == "live" else start(first, 1))
    await host.spawn(first.supervisor().start())
    await until(world, lambda: uploads(site) == 1)
    if point == "uploaded":
        host.crash()
    await until(world, lambda: host.crashed)
    made = {each.external_id: each.id for each in site.activities()}

    # When another process takes over, and the other sync runs too
    await second.supervisor().start()
    other = await (start(second, 1) if crashed == "live" else start_live(second))
    jobs = [await world.until(second, each.id) for each in (one, other)]

    # Then there is one activity for each exercise, the first one where there was one
    assert {job.state for job in jobs} == {JobState.SUCCESS}
    assert jobs[0].summary.crashes == 1
    assert site.external_ids() == site.expected_ids(RECENT)
    now = {each.external_id: each.id for each in site.activities()}
    assert made.items() <= now.items()
    records = await all_records(second, fitbit.id)
    for name, activity in now.items():
        number = (name or "").split("-")[2].removesuffix(".tcx")
        assert records[f"exercise:{number}"].data["strava_activity_id"] == activity


@pytest.mark.parametrize("late", ["live", "import"])
@with_world
async def test_an_answer_that_comes_late_makes_no_second_activity(world: World, late: str) -> None:
    # Given a Strava that takes longer over the first files than we are willing to wait
    site, app, *_ = await connected(sporty(world, strava={"processing_s": sum(POLL_PAUSES_S) + 30}))
    await app.supervisor().start()
    one = await (start_live(app) if late == "live" else start(app, 1))
    await until(world, lambda: uploads(site) > 0)
    while (await app.jobs.get(one.id)).summary.errors == 0:
        await world.clock.sleep(0.5)
    assert site.activities() == []
    site.strava.uploads._processing = timedelta(seconds=1)

    # When the other sync comes while the first file is still being worked on
    other = await (start(app, 1) if late == "live" else start_live(app))
    jobs = [await world.until(app, each.id) for each in (one, other)]

    # Then what Strava made of the first file is what both end with
    assert {job.state for job in jobs} == {JobState.SUCCESS}
    assert site.external_ids() == site.expected_ids(RECENT)


@pytest.mark.fault(7)
@with_world
async def test_an_answer_that_is_lost_makes_no_second_activity(world: World) -> None:
    # Given a Strava that takes files and does not say so
    site, app, *_ = await connected(sporty(world))
    lost = Fault(kind=FaultKind.OUTAGE, path=UPLOADS, method="POST", times=6, after=True)
    site.strava.faults.add(lost)
    await app.supervisor().start()

    live, slow = await start_live(app), await start(app, 2)
    jobs = [await world.until(app, each.id) for each in (live, slow)]

    assert {job.state for job in jobs} == {JobState.SUCCESS}
    assert site.external_ids() == site.expected_ids(sorted({*days_back(2), *RECENT}))


# ---- the hot lane ------------------------------------------------------------------------------


@pytest.mark.thorough
@with_world
async def test_live_work_does_not_wait_for_imports_of_others(world: World) -> None:
    # Given imports of three users, on all places of the cold lane, that use all they may
    site = sporty(world, users=4)
    app = await site.app(worker=lanes(cold=2))
    for user in range(4):
        await site.connect_both(app, user)
    imports = [await start(app, 30, user) for user in range(3)]
    await app.supervisor().start()
    await world.clock.sleep(10 * 60)
    assert {(await app.jobs.get(each.id)).ended for each in imports} == {False}

    # When a fourth user's days are to be fresh, then they are, in less than a minute
    for _ in range(2):
        began = world.clock.monotonic()
        live = await world.until(app, (await start_live(app, 3)).id, limit_s=60)
        assert live.state is JobState.SUCCESS
        assert world.clock.monotonic() - began < 60
        add = NewExercise(user=str(site.google.world.user_ids[3]), duration_s=600)
        site.google.add_exercise(add)
        await world.clock.sleep(60)

    # And so are those of a user whose import is under way
    began = world.clock.monotonic()
    await world.until(app, (await start_live(app, 0)).id)
    assert world.clock.monotonic() - began < 60
    for sandbox in (site.google, site.strava):
        assert sandbox.meter.overshoot() == 0
        assert sandbox.requests.count(status=429) == 0


@with_world
async def test_when_the_imports_share_is_spent_live_work_uses_the_reserve(world: World) -> None:
    # Given a budget of thirty requests a day, of which twelve are for live work
    small = Budget("strava", [Limit(30, per="day", reserve=12)], paced=False)
    # With long leases: days pass with few heartbeats.
    site, app, *_ = await connected(
        sporty(world, budget=small), worker=WorkerSettings(lease_s=6 * 3600)
    )
    await app.supervisor().start()

    # When an import has used up the rest, and waits for tomorrow
    slow = await start(app, 20)
    while (await app.jobs.get(slow.id)).reason is not Reason.RATE_LIMITED:
        await world.clock.sleep(0.5)
    assert site.strava.requests.total < 25

    # Then a live sync of the same user goes through at once
    run = add_run(site, world)
    began = world.clock.monotonic()
    live = await world.until(app, (await start_live(app)).id)
    assert (live.state, live.summary.deferrals) == (JobState.SUCCESS, 0)
    assert world.clock.monotonic() - began < 30
    assert f"headgate-fitbit-{run.id}.tcx" in site.external_ids()
    # And the import waits as before
    assert (await app.jobs.get(slow.id)).reason is Reason.RATE_LIMITED

    # Tomorrow it goes on, and what live has brought meanwhile is not sent again
    await world.clock.sleep(86400)
    await world.until(app, slow.id, limit_s=3 * 86400)
    ids = site.external_ids()
    assert len(ids) == len(set(ids)) == uploads(site)


@with_world
async def test_a_user_has_one_live_sync_at_a_time_beside_the_import(world: World) -> None:
    _, app, *_ = await connected(sporty(world))
    slow, live = await start(app, 2), await start_live(app)

    assert (live.sync, live.lane.value, live.mode) == (LIVE, "hot", Mode.SINCE)
    assert (slow.connection_id, slow.destination_connection_id) == (
        live.connection_id,
        live.destination_connection_id,
    )
    with pytest.raises(ActiveJobExists):
        await start_live(app)
