"""The nights of daily check-ins: every active user, once, two minutes apart, on the same path."""

from datetime import UTC, datetime, timedelta

import pytest

from headgate import InvalidInput, JobState, SkipReason
from headgate.systems.daily_checkins import system
from headgate.systems.daily_checkins.names import SYNC
from headgate.types import Job
from headgate_sandbox.foursquare.world import NewCheckin
from tests.flow.logs import lines, told
from tests.systems.daily_checkins.places import WorldPlace, in_place
from tests.systems.scheduling import scheduled
from tests.worlds import as_test

USERS = ("ada", "bob", "cleo", "dan", "eve")
#: Virtual time begins at midnight.
TWO = datetime(2026, 1, 1, 2, tzinfo=UTC)
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The least that has to be set."""
    monkeypatch.setenv("HEADGATE_FOURSQUARE_CLIENT_ID", "4242")
    monkeypatch.setenv("HEADGATE_FOURSQUARE_CLIENT_SECRET", "cl1ent")
    return monkeypatch


async def until(place: WorldPlace, at: datetime) -> None:
    await place.clock.sleep((at - place.clock.now()).total_seconds())


async def jobs(place: WorldPlace, since: datetime) -> list[Job]:
    """The imports that were queued since then, the first one first."""
    found = await place.app.jobs.list(limit=1000)
    return [job for job in reversed(found) if job.created_at >= since]


@as_test(in_place, users=5, scheduled=True, lease_s=3600.0)
async def test_each_night_every_active_user_is_imported_two_minutes_after_the_one_before(
    place: WorldPlace,
) -> None:
    for user in USERS:
        await place.connect(user)

    # When the first night has passed
    with told("info") as log:
        await until(place, TWO + timedelta(hours=1))

    # Then everybody was imported, at 0, 2, 4, 6 and 8 minutes past two
    night = await jobs(place, TWO)
    assert sorted(job.user_id for job in night) == sorted(USERS)
    assert {job.state for job in night} == {JobState.SUCCESS}
    starts = sorted(job.started_at - TWO for job in night if job.started_at)
    assert [round(start / MINUTE) for start in starts] == [0, 2, 4, 6, 8]
    for user in USERS:
        assert len(await place.stored_ids(user)) == 10

    # And the log has the design's words
    [started] = lines(log, "orchestrator_started")
    [completed] = lines(log, "orchestrator_completed")
    assert (started["tick"], started["active_users"]) == (TWO.isoformat(), 5)
    assert (completed["tick"], completed["users_queued"]) == (TWO.isoformat(), 5)

    # And the next night brings what is new
    await place.clock.sleep(3600)
    added = place.foursquare.add_checkin(NewCheckin(venue_name="Lighthouse"))
    await until(place, TWO + DAY + timedelta(hours=1))
    assert len(await jobs(place, TWO + DAY)) == 5
    stored = [await place.stored_ids(user) for user in USERS]
    assert sum(added.id in ids for ids in stored) == 1


@as_test(in_place, scheduled=True, active_within="3d", lease_s=24 * 3600.0)
async def test_who_was_not_seen_for_long_is_left_out_and_named(place: WorldPlace) -> None:
    await place.connect("ada")
    await place.connect("bob")
    for _ in range(3):
        await place.clock.sleep(DAY.total_seconds())
        await place.app.users.seen("ada")

    tick = TWO + 4 * DAY
    await until(place, tick + timedelta(hours=1))

    assert {job.user_id for job in await jobs(place, tick)} == {"ada"}
    found = await place.app.schedules.tick_users("daily-check-ins", tick)
    reasons = {each.user_id: each.reason for each in found}
    assert reasons == {"ada": None, "bob": SkipReason.INACTIVE}


@as_test(in_place, scheduled=True)
async def test_an_import_that_somebody_started_is_left_alone(place: WorldPlace) -> None:
    connection = await place.connect("ada")
    await until(place, TWO - MINUTE)
    submitted = await place.app.jobs.submit(
        SYNC, user_id="ada", connection_id=connection.id, mode="since", delay_s=600
    )

    await until(place, TWO + MINUTE)

    found = await place.app.schedules.tick_users("daily-check-ins", TWO)
    assert [each.reason for each in found] == [SkipReason.JOB_ACTIVE]
    assert [job.id for job in await jobs(place, TWO - MINUTE)] == [submitted.job.id]


# ---- settings ----------------------------------------------------------------------------------


def test_the_schedule_is_the_seeds_unless_a_setting_says_otherwise(
    client: pytest.MonkeyPatch,
) -> None:
    [schedule] = scheduled(system)
    assert (schedule.name, schedule.cron, schedule.tz) == ("daily-check-ins", "0 2 * * *", "UTC")
    assert (schedule.stagger, schedule.active_within) == (2 * MINUTE, 30 * DAY)

    client.setenv("HEADGATE_CHECK_INS_CRON", "30 4 * * 1")
    client.setenv("HEADGATE_CHECK_INS_ZONE", "Europe/Berlin")
    client.setenv("HEADGATE_CHECK_INS_ACTIVE_WITHIN", "90d")
    [schedule] = scheduled(system)
    assert (schedule.cron, schedule.tz) == ("30 4 * * 1", "Europe/Berlin")
    assert schedule.active_within == 90 * DAY

    client.setenv("HEADGATE_CHECK_INS_FRESH_WITHIN", "24h")
    [schedule] = scheduled(system)
    assert (schedule.cron, schedule.freshness) == (None, DAY)

    client.setenv("HEADGATE_CHECK_INS_SCHEDULE", "off")
    assert scheduled(system) == ()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HEADGATE_CHECK_INS_CRON", "at two"),
        ("HEADGATE_CHECK_INS_ZONE", "Mars/Base"),
        ("HEADGATE_CHECK_INS_STAGGER", "soon"),
        ("HEADGATE_CHECK_INS_ACTIVE_WITHIN", "30"),
        ("HEADGATE_CHECK_INS_FRESH_WITHIN", "1s"),
        ("HEADGATE_CHECK_INS_SCHEDULE", "maybe"),
    ],
)
def test_a_wrong_setting_is_named(client: pytest.MonkeyPatch, variable: str, value: str) -> None:
    client.setenv(variable, value)
    with pytest.raises(InvalidInput) as refused:
        scheduled(system)
    assert refused.value.field == variable
