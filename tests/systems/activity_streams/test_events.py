"""Events from Strava: each is seen to once, whenever it comes; nothing is lost, nothing doubled."""

import asyncio
from datetime import datetime, timedelta

import msgspec
import pytest

from headgate import ConnectionState, JobState, NotFound, Reason
from headgate.base.errors import LimiterUnreachable
from headgate.model.budget import Answer, Budget, BudgetRequest, BudgetUse, Unreachable
from headgate.model.job import Lane
from headgate.model.states import ItemState
from headgate.store.sql.connections.store import SqlConnections
from headgate.systems.activity_streams.events import StravaEvent
from headgate.systems.activity_streams.names import LIVE, STREAMS
from headgate_sandbox.kit.faults import Fault, FaultKind
from headgate_sandbox.strava.world import NewActivity
from tests.systems.activity_streams.places import ACTIVE, Place, in_place
from tests.worlds import as_test

pytestmark = pytest.mark.slow


@as_test(in_place, activities=300)
async def test_a_new_activity_is_fetched_in_the_hot_lane_while_a_backfill_runs(
    place: Place,
) -> None:
    # Given a backfill that takes hours
    job = (await place.streams.backfill(user_id="ada")).job
    await place.clock.sleep(1200)

    # When something happens, and Strava tells
    added = place.strava.world.add(NewActivity(name="Evening Run"))
    heard = await place.streams.handle_event(place.event(added))

    # Then it is here within seconds: details, laps and streams
    assert heard.connections == 1
    item = await place.until_fetched(added, within_s=10)
    assert item.lane is Lane.HOT
    assert await place.fetched(added) == place.channels(added)
    details = (await place.streams.find(item.id)).details
    assert details is not None and details["name"] == "Evening Run" and details["laps"]
    assert item.start_time == datetime.fromisoformat(added.start_date())
    # And the backfill goes on
    assert (await place.app.jobs.get(job.id)).state in ACTIVE
    assert place.strava.requests.count(status=429) == 0


@as_test(in_place)
async def test_a_live_job_ends_only_when_streams_that_backfill_holds_are_here_too(
    place: Place,
) -> None:
    # Given a backfill that holds an activity's streams while the limiter leaves it waiting
    added = place.strava.world.add(NewActivity())
    await place.note(added, external_id=str(added.id))
    asked, gives_up = asyncio.Event(), asyncio.Event()
    acquire = place.app._limiter.acquire

    async def hangs_once(budget: Budget, ask: BudgetRequest, *, grant_id: str) -> Answer:
        if ask.lane is Lane.HOT or asked.is_set():
            return await acquire(budget, ask, grant_id=grant_id)
        asked.set()
        await gives_up.wait()
        return Unreachable(error="it did not answer")

    vars(place.app._limiter)["acquire"] = hangs_once
    fetching = asyncio.create_task(place.fetch_noted())
    await asked.wait()
    assert (await place.item(added)).state is ItemState.FETCHING

    # When Strava tells of it, and live work cannot have the streams
    await place.streams.handle_event(place.event(added))
    await place.clock.sleep(10)

    # Then its job waits, also after the backfill has given them back
    [live] = await place.app.jobs.list(sync=LIVE)
    assert place.asked("/laps") == 1
    assert live.state in ACTIVE
    gives_up.set()
    await place.clock.sleep(1)
    [backfill] = await place.app.jobs.list(sync=STREAMS)
    assert backfill.reason is Reason.NO_LIMITER
    assert (await place.item(added)).state is ItemState.PENDING
    # And when it ends, they are here
    assert (await place.until(live)).state is JobState.SUCCESS
    assert await place.fetched(added) == place.channels(added)
    assert place.asked("/streams") == 1
    assert (await fetching).state is JobState.SUCCESS


@as_test(in_place, activities=12)
async def test_without_a_limiter_live_metadata_goes_on_and_streams_wait_for_it(
    place: Place,
) -> None:
    async def is_away(budget: Budget, ask: BudgetRequest, *, grant_id: str) -> Answer:
        return Unreachable(error="it did not answer")

    async def tells_nothing(budget: Budget, *, connection_id: str | None) -> BudgetUse:
        raise LimiterUnreachable(timedelta(seconds=30))

    async def until_all_wait_for_it(*ids: str) -> None:
        async with asyncio.timeout(600):
            while {(await place.app.jobs.get(each)).reason for each in ids} != {Reason.NO_LIMITER}:
                await place.clock.sleep(1)

    # Given a backfill under way, when the limiter goes away
    backfill = (await place.streams.backfill(user_id="ada")).job
    while place.asked("/streams") < 5:
        await place.clock.sleep(0.1)
    vars(place.app._limiter).update(acquire=is_away, use=tells_nothing)
    await until_all_wait_for_it(backfill.id)
    fetched = place.asked("/streams")
    assert fetched < 12

    # When an activity comes in, then it is read with its laps, and its streams stay pending
    added = place.strava.world.add(NewActivity())
    await place.streams.handle_event(place.event(added))
    [live] = await place.app.jobs.list(sync=LIVE)
    await until_all_wait_for_it(backfill.id, live.id)
    found = await place.streams.find(place.id_of(added))
    assert found.item.state is ItemState.PENDING
    assert found.details is not None and found.details["laps"]
    assert place.asked("/laps") == 1

    # And for minutes no streams are asked for, and nothing is held from one look to the next
    await place.clock.sleep(300)
    await until_all_wait_for_it(backfill.id, live.id)
    assert place.asked("/streams") == fetched
    assert await place.states() == {"success": fetched, "pending": 13 - fetched}
    assert (await place.streams.stats()).windows == ()
    assert await place.app.items._store.next_sweep_s() is None

    # And when it is back, everything is fetched, and nothing was ever too much
    for name in ("acquire", "use"):
        del vars(place.app._limiter)[name]
    await place.quiet()
    assert await place.states() == {"success": 13}
    assert place.asked("/streams") == 13
    assert place.strava.meter.overshoot() == 0
    assert place.strava.requests.count(status=429) == 0


@as_test(in_place, activities=0)
async def test_what_was_entered_by_hand_is_known_without_streams(place: Place) -> None:
    added = place.strava.world.add(NewActivity(manual=True, name="Gym"))
    await place.streams.handle_event(place.event(added))
    await place.quiet()

    found = await place.streams.find(place.id_of(added))
    assert found.item.state is ItemState.UNAVAILABLE
    assert found.details is not None and found.details["name"] == "Gym"
    assert (place.asked("/streams"), place.asked("/laps")) == (0, 0)


@pytest.mark.parametrize("step_s", [0.1, pytest.param(0.05, marks=pytest.mark.thorough)])
@as_test(in_place, activities=0)
async def test_events_that_come_while_a_job_is_active_are_not_lost(
    place: Place, step_s: float
) -> None:
    # When events come in at every moment of a job's life, its end included
    late: list[float] = []
    for step in range(round(1.2 / step_s)):
        first, second = (place.strava.world.add(NewActivity()) for _ in range(2))
        await place.streams.handle_event(place.event(first))
        await place.clock.sleep(step * step_s)
        began = place.clock.monotonic()
        await place.streams.handle_event(place.event(second))
        assert place.clock.monotonic() - began < 1.0
        await place.until_fetched(second, within_s=60)
        late.append(place.clock.monotonic() - began)
        await place.until_fetched(first, within_s=1)
        await place.clock.sleep(100)

    # Then each was seen to at once
    assert max(late) < 5


@as_test(in_place, activities=0)
async def test_many_events_at_once_are_all_seen_to(place: Place) -> None:
    added = [place.strava.world.add(NewActivity()) for _ in range(25)]

    await asyncio.gather(*(place.streams.handle_event(place.event(each)) for each in added))
    await place.quiet()

    assert await place.states() == {"success": 25}
    assert place.asked("/streams") == place.asked("/laps") == 25


@as_test(in_place, activities=250)
async def test_an_event_during_the_list_is_seen_to_by_that_job(place: Place) -> None:
    listing = (await place.streams.sync_now(user_id="ada")).job
    added = place.strava.world.add(NewActivity())

    await place.streams.handle_event(place.event(added))
    await place.until_fetched(added, within_s=30)

    jobs = await place.app.jobs.list(sync=LIVE)
    assert [job.id for job in jobs] == [listing.id]


@as_test(in_place, activities=0)
async def test_while_one_waits_to_be_tried_again_a_new_one_is_read_within_half_a_minute(
    place: Place,
) -> None:
    # Given an activity whose streams fail, so that its job waits for them
    poor = place.strava.world.add(NewActivity())
    path = f"/api/v3/activities/{poor.id}/streams"
    place.strava.faults.next(FaultKind.MALFORMED, times=2, path=path)
    await place.streams.handle_event(place.event(poor))
    await place.clock.sleep(100)
    assert (await place.item(poor)).state is ItemState.FAILED

    # When another comes in
    added = place.strava.world.add(NewActivity())
    await place.streams.handle_event(place.event(added))

    # Then it is not held up for long, and the first one comes in the end
    await place.until_fetched(added, within_s=35)
    await place.until_fetched(poor, within_s=400)


@as_test(in_place, activities=0)
async def test_the_same_event_again_costs_nothing(place: Place) -> None:
    added = place.strava.world.add(NewActivity())
    event = place.event(added)
    await place.streams.handle_event(event)
    await place.quiet()
    requests, jobs = len(place.site.wire.sent), await place.app.jobs.list()

    # When Strava tells it twice more, a minute apart
    for _ in range(2):
        await place.clock.sleep(60)
        assert (await place.streams.handle_event(event)).connections == 1

    # Then nothing is asked for, and no job is made
    await place.quiet()
    assert len(place.site.wire.sent) == requests
    assert await place.app.jobs.list() == jobs


@as_test(in_place, works=False, activities=0)
async def test_an_event_whose_job_was_never_made_makes_it_when_it_comes_again(place: Place) -> None:
    # Given an event that was noted just before its process died
    added = place.strava.world.add(NewActivity())
    event = place.event(added)
    await place.streams.handle_event(event)
    [job] = await place.app.jobs.list()
    await place.app.jobs.cancel(job.id)

    await place.streams.handle_event(event)

    assert len(await place.app.jobs.list()) == 2


@as_test(in_place, activities=0)
async def test_an_update_is_read_again_once_and_what_was_known_stays_until_then(
    place: Place,
) -> None:
    # Given an activity that is renamed
    added = place.strava.world.add(NewActivity(name="Run"))
    await place.streams.handle_event(place.event(added))
    await place.quiet()
    await place.clock.sleep(60)
    place.change(added, name="Race")
    streams = place.asked("/streams")

    # When Strava tells
    event = place.event(added, "update", updates={"title": "Race"})
    await place.streams.handle_event(event)
    details = (await place.streams.find(place.id_of(added))).details
    assert details is not None and details["name"] == "Run"
    await place.quiet()

    # Then it is read again, but for its streams; and once, however often it is told
    details = (await place.streams.find(place.id_of(added))).details
    assert details is not None and details["name"] == "Race"
    assert place.asked("/streams") == streams
    assert place.asked("/laps") == 2
    await place.clock.sleep(60)
    await place.streams.handle_event(event)
    await place.quiet()
    assert place.asked("/laps") == 2


@as_test(in_place, activities=0)
async def test_a_newer_list_tells_what_an_older_reading_does_not(place: Place) -> None:
    added = place.strava.world.add(NewActivity(name="Run"))
    await place.streams.handle_event(place.event(added))
    await place.quiet()
    place.change(added, name="Race")
    await place.clock.sleep(60)

    await place.until((await place.streams.sync_now(user_id="ada")).job)

    details = (await place.streams.find(place.id_of(added))).details
    assert details is not None and details["name"] == "Race" and details["laps"]


@as_test(in_place)
async def test_a_deleted_activity_is_forgotten_with_everything(place: Place) -> None:
    await place.import_all()
    gone, kept = place.sports()[-2:]
    place.strava.delete_activity(gone.id)
    await place.streams.handle_event(place.event(gone, "delete"))

    with pytest.raises(NotFound):
        await place.streams.find(place.id_of(gone))
    with pytest.raises(NotFound):
        await place.streams.streams(place.id_of(gone))
    left = {each.item.id for each in await place.streams.list(user_id="ada")}
    assert place.id_of(gone) not in left and len(left) == 9
    assert str(gone.id) not in {
        record.key for record in await place.app.records.list(LIVE, place.connection.id)
    }
    assert await place.fetched(kept) == place.channels(kept)
    # And the same again is nothing, nor does a list bring it back
    await place.streams.handle_event(place.event(gone, "delete"))
    await place.until((await place.streams.sync_now(user_id="ada")).job)
    left = {each.item.id for each in await place.streams.list(user_id="ada")}
    assert left == {place.id_of(sport) for sport in place.sports()} and len(left) == 9


async def assert_nothing_is_left(place: Place) -> None:
    assert await place.app.items.list(None, limit=9) == []
    for sync in (LIVE, STREAMS):
        assert await place.app.records.list(sync, place.connection.id) == []


@as_test(in_place, activities=0)
async def test_an_activity_that_is_deleted_while_it_is_read_stays_deleted(place: Place) -> None:
    # Given an activity that is being read, slowly
    slow = Fault(kind=FaultKind.SLOW, seconds=2, path="/api/v3/activities/*/laps")
    place.strava.faults.add(slow)
    added = place.strava.world.add(NewActivity())
    await place.streams.handle_event(place.event(added))
    async with asyncio.timeout(60):
        while not place.asked(f"/{added.id}/laps"):
            await place.clock.sleep(0.1)

    # When the athlete deletes it, and an older event about it comes late
    await place.streams.handle_event(place.event(added, "delete"))
    await place.streams.handle_event(place.event(added, "update"))
    await place.quiet()

    # Then it does not come back, and nobody fetches its streams
    await assert_nothing_is_left(place)
    await place.until((await place.streams.backfill(user_id="ada")).job)
    assert place.asked("/streams") == 0


@pytest.mark.parametrize("start", ["sync_now", "backfill"])
@as_test(in_place, activities=1)
async def test_an_activity_that_is_deleted_while_it_is_listed_stays_deleted(
    place: Place, start: str
) -> None:
    # Given a list with an activity, on its slow way here
    slow = Fault(kind=FaultKind.SLOW, seconds=2, path="/api/v3/athlete/activities")
    place.strava.faults.add(slow)
    [sport] = place.sports()
    job = (await getattr(place.streams, start)(user_id="ada")).job
    async with asyncio.timeout(60):
        while not place.asked("/athlete/activities"):
            await place.clock.sleep(0.1)

    # When the athlete deletes it
    await place.streams.handle_event(place.event(sport, "delete"))
    await place.until(job)

    # Then nothing of it is here
    await assert_nothing_is_left(place)


@as_test(in_place, activities=0)
async def test_streams_that_do_not_exist_at_strava_are_unavailable(place: Place) -> None:
    # Given an activity that was recorded, but nothing was measured, and one that is deleted
    # before its streams are fetched
    added = place.strava.world.add(NewActivity(measured=False))
    gone = place.strava.world.add(NewActivity())
    for sport in (added, gone):
        await place.note(sport, external_id=str(sport.id))
    place.strava.delete_activity(gone.id)

    assert (await place.fetch_noted()).state is JobState.SUCCESS

    for sport in (added, gone):
        item = await place.item(sport)
        assert (item.state, item.retry_count) == (ItemState.UNAVAILABLE, 0)


@as_test(in_place, activities=1)
async def test_an_activity_that_is_gone_before_it_is_read_is_nothing(place: Place) -> None:
    nobody = msgspec.structs.replace(place.sports()[0], id=10_009_999_999)
    await place.streams.handle_event(place.event(nobody))
    await place.quiet()

    [job] = await place.app.jobs.list()
    assert job.state is JobState.SUCCESS
    with pytest.raises(NotFound):
        await place.streams.find(place.id_of(nobody))


@as_test(in_place, activities=150)
async def test_a_withdrawn_authorization_ends_what_waits_without_a_request(place: Place) -> None:
    # Given a backfill that waits for the next window
    job = (await place.streams.backfill(user_id="ada")).job
    while (job := await place.app.jobs.get(job.id)).reason is not Reason.RATE_LIMITED:
        await place.clock.sleep(10)
    requests = len(place.site.wire.sent)

    # When the athlete no longer lets us in
    event = withdrawal(place)
    assert (await place.streams.handle_event(event)).connections == 1

    # Then the connection says so, and the job ends at its time without asking anything
    connection = await place.app.connections.get(place.connection.id)
    assert connection.state is ConnectionState.NEEDS_REAUTH
    job = await place.until(job)
    assert (job.state, job.reason) == (JobState.FAILED, Reason.NEEDS_REAUTH)
    assert len(place.site.wire.sent) == requests
    # And an event about an activity is noted, but asks for nothing
    added = place.strava.world.add(NewActivity())
    await place.streams.handle_event(place.event(added))
    assert not await place.app.jobs.list(states=ACTIVE)

    # Until the athlete has connected again: then the late event does no harm
    await place.clock.sleep(60)
    await place.site.connect(place.app)
    await place.streams.handle_event(event)
    connection = await place.app.connections.get(place.connection.id)
    assert connection.state is ConnectionState.ACTIVE
    await place.until((await place.streams.sync_now(user_id="ada")).job)
    assert await place.fetched(added) == place.channels(added)


def withdrawal(place: Place) -> StravaEvent:
    athlete = place.strava.world.athlete_ids[0]
    return StravaEvent(
        object_type="athlete",
        object_id=athlete,
        aspect_type="update",
        owner_id=athlete,
        event_time=int(place.clock.now().timestamp()),
        updates={"authorized": "false"},
    )


@as_test(in_place, activities=1)
async def test_events_about_nobody_and_about_nothing_that_matters_change_nothing(
    place: Place,
) -> None:
    [sport] = place.sports()
    stranger = msgspec.structs.replace(sport, athlete_id=7)

    assert (await place.streams.handle_event(place.event(stranger))).connections == 0
    athlete = {"object_type": "athlete", "updates": {"weight": "70"}}
    assert (
        await place.streams.handle_event(place.event(sport, "update", **athlete))
    ).connections == 1
    await place.streams.handle_event(place.event(sport, "admired"))

    assert not await place.app.jobs.list()
    assert await place.states() == {}


@as_test(in_place, activities=1, works=False)
async def test_an_event_that_meets_a_removal_is_noted_for_everybody_else(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given two users of one account, of whom one leaves just after the event found both
    [sport] = place.sports()
    bobs = await place.site.connect(place.app, user_id="bob")
    both = await place.app.connections.of_account("strava", str(sport.athlete_id))
    assert {each.id for each in both} == {place.connection.id, bobs.id}
    await place.app.connections.remove(both[0].id)

    async def as_it_was(*_: object) -> object:
        return both

    monkeypatch.setattr(SqlConnections, "of_account", as_it_was)

    await place.streams.handle_event(place.event(sport))

    # Then the other's is noted, and nothing of the one who left
    noted = await place.app.items.list(None, limit=9)
    assert {item.connection_id for item in noted} == {both[1].id}
