"""The health history as a whole: from Google Health to Strava, in virtual time.

What is true is what the two sandboxes know: who did what, which activities there are, and how many
requests came in.
"""

import os
from collections import Counter
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from headgate import (
    App,
    ConnectionReason,
    ConnectionState,
    DayStatus,
    InvalidInput,
    JobState,
    Reason,
)
from headgate.base.times import format_time
from headgate.flow.jobs.view import Reconnect
from headgate.systems.health_history import system
from headgate.systems.health_history.syncs import DAY_COSTS, LIVE, NAME
from headgate_sandbox.google_health import access as google_access
from headgate_sandbox.google_health.world import NewExercise
from headgate_sandbox.kit.faults import Fault, FaultKind
from headgate_sandbox.strava import access as strava_access
from tests.connecting import key_entries
from tests.health import LAST, SPORTY, Site, all_records, days_back, request, start
from tests.systems.health_history.places import UPLOADS, connected, imported, sporty, until, uploads
from tests.worlds import World, kinds, lanes, with_world

pytestmark = pytest.mark.slow
THOROUGH = pytest.mark.thorough


def days_read(site: Site) -> list[str]:
    """The days whose exercises were listed, in order, repeats included."""
    urls = [urlsplit(each.url) for each in site.wire.sent]
    listed = [parse_qs(url.query) for url in urls if url.path.endswith("exercise/dataPoints")]
    return [asked["filter"][0].split('"')[1] for asked in listed]


# ---- the whole way -----------------------------------------------------------------------------


@with_world
async def test_thirty_days_are_imported_newest_first_each_exercise_once(world: World) -> None:
    # Given somebody with both accounts
    site = Site(world)
    days = days_back(30)
    app = await site.app()
    fitbit, strava = await site.connect_both(app)

    # When thirty days are imported
    job = await imported(world, app, 30)

    # Then it is done, day by day from the newest to the oldest
    assert (job.state, job.provider) == (JobState.SUCCESS, "fitbit")
    assert days_read(site) == [str(day) for day in days]
    assert (job.connection_id, job.destination_connection_id) == (fitbit.id, strava.id)

    # Every exercise is at Strava exactly once, with what the file told of it
    exercises = {str(each.id): each for day in days for each in site.exercises(day)}
    assert len(exercises) > 10
    assert site.external_ids() == site.expected_ids(days)
    assert uploads(site) == len(exercises) == job.summary.delivered
    records = await all_records(app, fitbit.id)
    for activity in site.activities():
        record = records[f"exercise:{(activity.external_id or '').split('-')[2][:-4]}"]
        exercise = exercises[str(record.data["id"])]
        assert record.data["strava_activity_id"] == activity.id
        assert (activity.start_s, activity.elapsed_s) == (exercise.start_s, exercise.duration_s)
        assert "tcx" not in record.data

    # The days are covered: held with a summary, or empty without one
    coverage = await app.records.coverage(NAME, fitbit.id, start=days[-1], end=days[0])
    assert sorted(row.day for row in coverage) == sorted(days)
    empty = {row.day for row in coverage if row.status is DayStatus.EMPTY}
    assert 0 < len(empty) == job.summary.days_empty < 10
    assert all(row.error is None for row in coverage)
    summaries = {key for key in records if key.startswith("day:")}
    assert summaries == {f"day:{day}" for day in days if day not in empty}
    assert all(not site.exercises(day) for day in empty)
    for day in set(days) - empty:
        summary = records[f"day:{day}"].data
        assert summary["steps"] == site.steps(day)
        assert summary.keys() >= {"distance_m", "heart_rate", "calories_kcal"}

    # And both providers were asked within their limits, by their own count
    for sandbox in (site.google, site.strava):
        assert sandbox.meter.overshoot() == 0
        assert sandbox.requests.count(status=429) == 0

    # As often as the forecast says
    costs = {(cost.provider, cost.kind): cost for cost in DAY_COSTS}
    asked = {
        ("fitbit", "read"): site.google.requests.total - 2,
        ("strava", "upload"): uploads(site),
        ("strava", "read"): site.strava.requests.count(method="GET", path=f"{UPLOADS}/{{id}}"),
    }
    assert costs.keys() == asked.keys()
    for what, count in asked.items():
        assert costs[what].least * 30 <= count <= costs[what].most * 30


@with_world
async def test_a_busy_day_takes_its_time_and_stays_within_the_limits(world: World) -> None:
    # Given a day with more exercises than a page has, one of them entered by hand
    site = sporty(world)
    for number in range(29):
        moment = world.clock.now() - timedelta(days=2) + timedelta(minutes=30 * number)
        site.google.add_exercise(
            NewExercise(start=moment, duration_s=600, manual=number == 0, has_gps=number > 5)
        )
    app = await site.app()
    await site.connect_both(app)

    # When it is imported
    job = await imported(world, app, 2)

    # Then that is one chunk, which was never cut short
    days = days_back(2)
    assert (job.state, job.summary.errors, job.summary.chunks) == (JobState.SUCCESS, 0, 2)
    assert site.external_ids() == site.expected_ids(days)
    assert len(site.external_ids()) == 31 == uploads(site)
    assert site.strava.meter.overshoot() == 0


@pytest.mark.thorough
@with_world
async def test_many_at_once_share_the_budget_and_nobody_uploads_twice(world: World) -> None:
    # Given six users at once, and room for four of them
    site = Site(world, users=6, google={"shares": SPORTY})
    app = await site.app(worker=lanes(cold=4))
    for user in range(6):
        await site.connect_both(app, user)
    jobs = [await start(app, 6, user) for user in range(6)]
    await app.supervisor().start()
    jobs = [await world.until(app, job.id) for job in jobs]

    # Then each exercise is with its own athlete, and was sent once: who has begun waits
    assert {job.state for job in jobs} == {JobState.SUCCESS}
    for user in range(6):
        assert site.external_ids(user) == site.expected_ids(days_back(6), user)
    assert uploads(site) == 36
    for sandbox in (site.google, site.strava):
        assert sandbox.meter.overshoot() == 0
        assert sandbox.requests.count(status=429) == 0


# ---- outages -----------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", [pytest.param("fitbit", marks=THOROUGH), "strava"])
@with_world
async def test_an_outage_pauses_the_job_and_it_comes_back_by_itself(
    world: World, provider: str
) -> None:
    # Given a provider that is down for twenty minutes, after the first few days
    site, app, *_ = await connected(sporty(world))
    job = await start(app, 8)
    await app.supervisor().start()
    await until(world, lambda: len(site.activities()) >= 3)
    sandbox = site.google if provider == "fitbit" else site.strava
    ends = world.clock.now() + timedelta(minutes=20)
    sandbox.faults.add(Fault(kind=FaultKind.OUTAGE, ends_at=ends))

    # When the breaker opens
    job = await world.until(app, job.id, JobState.PAUSED)

    # Then the job says who is to blame, and exactly when it goes on
    assert (job.reason, job.provider) == (Reason.BREAKER, provider)
    assert job.summary.errors == 6
    assert job.wake_at is not None
    busy = {"fitbit": "Fitbit", "strava": "Strava"}[provider]
    assert (await app.jobs.view(job)).message == (
        f"Syncing is temporarily paused because the {busy} servers are busy. "
        f"We will automatically resume at {format_time(job.wake_at)}."
    )
    asked = len(site.wire.sent)
    await world.clock.sleep((job.wake_at - world.clock.now()).total_seconds() - 1)
    assert len(site.wire.sent) == asked

    # And after the cool-down it goes on, and loses nothing
    job = await world.until(app, job.id)
    assert job.state is JobState.SUCCESS
    assert job.finished_at is not None
    assert job.finished_at > ends
    assert site.external_ids() == site.expected_ids(days_back(8))
    assert kinds(await app.jobs.events(job.id)).count("thawed") == 1


@with_world
async def test_a_day_that_can_never_be_read_is_a_gap_and_can_be_read_later(world: World) -> None:
    # Given an exercise whose file Google never gives out
    site = sporty(world)
    poison = days_back(4)[1]
    [exercise] = site.exercises(poison)
    path = f"*/{exercise.id}:exportExerciseTcx"
    site.google.faults.add(Fault(kind=FaultKind.SERVER_ERROR, path=path))
    app = await site.app()
    fitbit, _ = await site.connect_both(app)

    # When the job ends
    job = await imported(world, app, 4)

    # Then that day is a gap with its reason, and the others are there
    assert (job.state, job.summary.days_failed) == (JobState.SUCCESS, 1)
    [row] = await app.records.coverage(NAME, fitbit.id, start=poison, end=poison)
    assert row.status is DayStatus.FAILED
    assert "500" in (row.error or "")
    others = [day for day in days_back(4) if day != poison]
    assert site.external_ids() == site.expected_ids(others)
    status = await app.jobs.status(job.id)
    assert status.message.startswith("Done, but 1 day could not be read.")
    assert [gap.day for gap in status.gaps] == [poison]

    # And once Google gives it out, only that day is read again
    site.google.faults.clear()
    site.wire.sent.clear()
    again = await world.until(app, (await start(app, 4, reprocess="failed")).id)
    assert (again.state, again.progress.total) == (JobState.SUCCESS, 1)
    assert days_read(site) == [str(poison)]
    assert site.external_ids() == site.expected_ids(days_back(4))


# ---- credentials -------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["fitbit", pytest.param("strava", marks=THOROUGH)])
@with_world
async def test_credentials_that_cannot_be_renewed_end_the_job_until_the_user_is_back(
    world: World, provider: str
) -> None:
    # Given a user who takes back what they allowed, in the middle of an import
    site, app, fitbit, strava = await connected(sporty(world))
    lost = fitbit if provider == "fitbit" else strava
    job = await start(app, 6)
    await app.supervisor().start()
    await until(world, lambda: len(site.activities()) >= 2)
    sandbox = site.google if provider == "fitbit" else site.strava
    user = sandbox.find_user(None)
    assert user is not None
    sandbox.tokens.revoke(user, sandbox.client_id)

    # When the job meets that
    job = await world.until(app, job.id)

    # Then it ends at once and blames the right one; no try was burnt on it
    assert (job.state, job.reason) == (JobState.FAILED, Reason.NEEDS_REAUTH)
    assert job.provider == provider
    assert job.summary.errors == 1
    assert "retry" not in kinds(await app.jobs.events(job.id))
    title = {"fitbit": "Fitbit", "strava": "Strava"}[provider]
    status = await app.jobs.status(job.id)
    assert status.message == f"{title} needs you to sign in again. Nothing is lost."
    assert status.reconnect == Reconnect(provider=provider, connection_id=lost.id)
    connection = await app.connections.get(lost.id)
    assert connection.state is ConnectionState.NEEDS_REAUTH
    assert connection.reason is ConnectionReason.GRANT_REFUSED

    # And when they have signed in again, it goes on from there and loses nothing
    await site.connect(app, provider, connection_id=lost.id)
    await app.jobs.retry_now(job.id)
    job = await world.until(app, job.id)
    assert job.state is JobState.SUCCESS
    assert site.external_ids() == site.expected_ids(days_back(6))
    days = Counter(days_read(site))
    assert set(days) == {str(day) for day in days_back(6)}
    assert days.total() <= 7


# ---- files that Strava does not accept -----------------------------------------------------------


@with_world
async def test_a_file_that_strava_refuses_is_told_and_the_import_goes_on(world: World) -> None:
    # Given a file that is no good, on the second of three days
    site = sporty(world)
    day = days_back(3)[1]
    [exercise] = site.exercises(day)
    site.spoilt.add(str(exercise.id))
    app = await site.app()
    fitbit, _ = await site.connect_both(app)

    job = await imported(world, app, 3)

    # Then it is counted as refused, and the day tells why
    assert (job.state, job.summary.errors) == (JobState.SUCCESS, 0)
    assert (job.summary.delivered, job.summary.refused) == (2, 1)
    [row] = await app.records.coverage(NAME, fitbit.id, start=day, end=day)
    assert row.status is DayStatus.HELD
    assert "malformed: no activity with a time" in (row.error or "")
    assert str(exercise.id) in (row.error or "")
    assert (await app.jobs.view(job)).message == "Done, but 1 record was refused."
    assert [gap.day for gap in (await app.jobs.status(job.id)).gaps] == [day]
    assert site.external_ids() == site.expected_ids([LAST, days_back(3)[2]])

    # And it is not remembered as an activity
    records = await all_records(app, fitbit.id)
    assert f"exercise:{exercise.id}" not in records
    assert f"day:{day}" in records


# ---- which days, and for whom ------------------------------------------------------------------


@with_world
async def test_days_that_are_held_are_read_again_only_when_asked(world: World) -> None:
    # Given an import of five days
    site, app, fitbit, _ = await connected(sporty(world))
    await app.supervisor().start()
    await world.until(app, (await start(app, 5)).id)
    records = await all_records(app, fitbit.id)
    made = [each.id for each in site.activities()]

    # When a longer range is asked for, then only the days before are read
    site.wire.sent.clear()
    longer = await world.until(app, (await start(app, 7, reprocess="failed")).id)
    assert longer.progress.total == 2
    assert days_read(site) == [str(day) for day in days_back(7)[5:]]

    # When nothing is missing, nobody is asked
    site.wire.sent.clear()
    nothing = await world.until(app, (await start(app, 7, reprocess="none")).id)
    assert (nothing.state, nothing.progress.total) == (JobState.SUCCESS, 0)
    assert (await app.jobs.view(nothing)).message == "Done: every day was imported already."
    assert site.wire.sent == []

    # When all are to be read again, they are, and Strava has the same activities as before
    everything = await world.until(app, (await start(app, 5, reprocess="all")).id)
    assert (everything.state, everything.progress.total) == (JobState.SUCCESS, 5)
    assert days_read(site) == [str(day) for day in days_back(5)]
    assert [each.id for each in site.activities()][:5] == made
    assert site.external_ids() == site.expected_ids(days_back(7))
    again = await all_records(app, fitbit.id)
    assert records.items() <= again.items()
    # What Strava has is not sent again; the totals of the days are compared
    assert everything.summary.unchanged == len(records) - 5
    assert everything.summary.delivered_before == 5


@with_world
async def test_what_an_import_will_take_is_told_before(world: World) -> None:
    _, app, *_ = await connected(Site(world))

    forecast = await app.jobs.forecast(request(300))

    told = {each.provider: (each.least, each.most) for each in forecast.requests}
    assert forecast.days == 300
    assert told == {"fitbit": (2160, 2550), "strava": (120, 900)}
    assert {each.provider for each in forecast.left_for_live} == {"fitbit", "strava"}
    assert forecast.finish is not None


@pytest.mark.thorough
@with_world
async def test_an_import_ends_when_it_was_told_to(world: World) -> None:
    # Given a fresh install
    _, app, *_ = await connected(Site(world))
    await app.supervisor().start()
    widths: list[timedelta] = []
    for last, days in ((LAST, 30), (LAST - timedelta(days=30), 60)):
        # When days are imported, then that ends in the range that was told before
        wanted = replace(request(days), start_date=last - timedelta(days=days - 1), end_date=last)
        finish = (await app.jobs.forecast(wanted)).finish
        job = await world.until(app, (await app.jobs.submit(wanted)).job.id)
        assert finish is not None and job.finished_at is not None
        assert finish.earliest <= job.finished_at <= finish.latest
        widths.append((finish.latest - finish.earliest) / days)

    # And once the user is known, the range is narrower
    assert widths[1] < widths[0] / 2


# ---- as an application -------------------------------------------------------------------------

ENVIRONMENT = {
    "HEADGATE_FITBIT_CLIENT_ID": google_access.CLIENT_ID,
    "HEADGATE_FITBIT_CLIENT_SECRET": google_access.CLIENT_SECRET,
    "HEADGATE_STRAVA_CLIENT_ID": strava_access.CLIENT_ID,
    "HEADGATE_STRAVA_CLIENT_SECRET": strava_access.CLIENT_SECRET,
}


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment in which nothing is set but the database, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    for name in [each for each in os.environ if each.startswith("HEADGATE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HEADGATE_DATABASE", f"sqlite:///{tmp_path}/history.db")


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("missing", sorted(ENVIRONMENT))
def test_what_is_missing_in_the_environment_is_named(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    for name, value in {**ENVIRONMENT, missing: " "}.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(InvalidInput, match=f"{missing}: is not set"):
        system.with_settings()


@pytest.mark.usefixtures("settled")
async def test_the_environment_says_who_we_are_at_both_providers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HEADGATE_KEYS", key_entries("k1")[0])
    monkeypatch.setenv("HEADGATE_STRAVA_URL", "http://127.0.0.1:8001/")

    app = App(f"sqlite:///{tmp_path}/history.db", systems=[system])

    assert {sync.name: sync.source.name for sync in app.registry} == {
        NAME: "fitbit",
        LIVE: "fitbit",
    }
    addresses = [getattr(auth, "token_url", "") for auth in app.registry.auths.values()]
    assert addresses == ["https://oauth2.googleapis.com/token", "http://127.0.0.1:8001/oauth/token"]
    async with app:
        assert await app.jobs.list() == []
    assert (tmp_path / "history.db").exists()
