"""Activity streams against the emulated Strava: fetched once, never lost, within every limit."""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headgate import ApiSource, App, InvalidInput, JobState, NotFound, Reason
from headgate.errors import ActiveJobExists, IllegalTransition, NotConnected
from headgate.model.job import Lane
from headgate.model.states import ItemState
from headgate.policy.items import rescue
from headgate.systems.activity_streams import system
from headgate.systems.activity_streams.names import COLLECTION, LIVE, STREAMS, activity_id
from headgate.systems.activity_streams.syncs import STREAM_ITEMS
from headgate.types import JobStatus
from headgate_sandbox.kit.faults import Fault, FaultKind
from headgate_sandbox.strava.activity import Shares
from headgate_sandbox.strava.world import NewActivity
from tests.connecting import key_entries
from tests.flow.logs import lines, told
from tests.systems.activity_streams.places import ALL_STREAMS, MANY, Place, in_place
from tests.unit.model.test_item import claimed, make_item
from tests.worlds import as_test

pytestmark = pytest.mark.slow

# ---- everything --------------------------------------------------------------------------------


@as_test(in_place, activities=30, shares=MANY)
async def test_every_activity_gets_its_streams_or_is_known_to_have_none(place: Place) -> None:
    # When an athlete's activities are listed, and then the rest is fetched
    live = await place.until((await place.streams.sync_now(user_id="ada")).job)
    job = await place.until((await place.streams.backfill(user_id="ada")).job)

    # Then each that has streams has them here, as Strava has measured them
    assert (live.state, job.state) == (JobState.SUCCESS, JobState.SUCCESS)
    assert (live.lane, job.lane) == (Lane.HOT, Lane.COLD)
    sports = place.sports()
    measured = [sport for sport in sports if not sport.manual]
    for sport in measured:
        assert await place.fetched(sport) == place.channels(sport)
    # And each that was entered by hand is known to have none, without a request
    by_hand = [sport for sport in sports if sport.manual]
    assert {(await place.item(sport)).state for sport in by_hand} == {ItemState.UNAVAILABLE}
    assert place.asked("/streams") == len(measured) < len(sports)
    # And the job says how far it has come, and Strava has refused nothing
    assert (job.progress.done, job.progress.total) == (len(sports), len(sports))
    assert place.strava.requests.count(status=429) == 0


def test_streams_that_take_down_every_worker_say_so_in_the_designs_words() -> None:
    policy = STREAM_ITEMS.retry
    made = rescue(claimed(make_item(crashes=policy.crashes_max - 1)), policy)

    assert made.after.error == "fetching_timeout_cleanup"


@as_test(in_place, activities=20)
async def test_the_newest_are_read_in_full_in_the_hot_lane_and_history_as_listed(
    place: Place,
) -> None:
    await place.until((await place.streams.sync_now(user_id="ada")).job)

    oldest, *_, newest = place.sports()
    recent = await place.streams.streams(place.id_of(newest), user_id="ada")
    past = await place.streams.streams(place.id_of(oldest), user_id="ada")
    assert recent.document is not None
    assert recent.item.lane is Lane.HOT
    assert (past.document, past.item.state) == (None, ItemState.PENDING)
    details = [(await place.streams.describe(each.item)).details for each in (recent, past)]
    in_full, listed = (each or {} for each in details)
    assert in_full["laps"]
    assert in_full["calories"]
    assert listed["name"] == oldest.name
    assert "laps" not in listed


@as_test(in_place, activities=30)
async def test_a_backfill_alone_lists_what_nobody_has_listed(place: Place) -> None:
    job = await place.until((await place.streams.backfill(user_id="ada")).job)

    assert job.state is JobState.SUCCESS
    assert await place.states() == {"success": 30}
    assert (job.progress.done, job.progress.total) == (30, 30)
    # Each is counted once, whatever list it is on
    counts = (await place.app.jobs.status(job.id)).counts
    assert (job.summary.records, counts.found) == (30, 30)
    assert len(await place.app.records.list(STREAMS, place.connection.id)) == 30
    details = [each.details for each in await place.streams.list(user_id="ada")]
    assert all(each is not None and each["name"] for each in details)


@pytest.mark.parametrize("known", [pytest.param(0, marks=pytest.mark.thorough), 3])
@as_test(in_place)
async def test_what_is_known_is_told_before_the_list_has_come(place: Place, known: int) -> None:
    # Given a few activities that events have named, and a Strava that lists nothing now
    for sport in place.sports()[:known]:
        await place.note(sport, external_id=str(sport.id))
    busy = Fault(kind=FaultKind.RATE_LIMITED, path="/api/v3/athlete/activities", times=1)
    place.strava.faults.add(busy)

    # When a backfill that lists first has to wait
    job = (await place.streams.backfill(user_id="ada")).job
    async with asyncio.timeout(600):
        while (await place.app.jobs.get(job.id)).reason is not Reason.RATE_LIMITED:
            await place.clock.sleep(1)

    # Then it counts what there is so far, and nothing looks done
    status = await place.app.jobs.status(job.id)
    assert (status.progress.total, status.progress.at) == (known or None, "listing")
    assert (status.counts.found, status.progress.done) == (known, 0)
    assert not status.percent
    assert (await place.until(job)).progress.total == 10


@as_test(in_place, activities=25, shares=MANY)
async def test_the_progress_is_what_has_happened(place: Place) -> None:
    # Given activities that are listed, some without streams, and a Strava that is busy
    await place.until((await place.streams.sync_now(user_id="ada")).job)
    place.strava.faults.add(Fault(kind=FaultKind.RATE_LIMITED, path=ALL_STREAMS, times=1))

    async def looked_up(job_id: str) -> tuple[JobStatus, Mapping[ItemState, int]]:
        status = await place.app.jobs.status(job_id)
        stats = await place.streams.stats(user_id="ada")
        assert stats.athletes is not None
        return status, stats.athletes["ada"]

    # When a backfill has to wait before its first stream
    job = (await place.streams.backfill(user_id="ada")).job
    async with asyncio.timeout(600):
        while (await place.app.jobs.get(job.id)).reason is not Reason.RATE_LIMITED:
            await place.clock.sleep(1)

    # Then it says at once how much there is, by state, as the items themselves say
    seen = set()
    while True:
        status, states = await looked_up(job.id)
        finished = states[ItemState.SUCCESS] + states[ItemState.UNAVAILABLE]
        assert status.progress.items == states
        assert (status.progress.done, status.progress.total) == (finished, 25)
        assert (status.counts.found, status.counts.imported) == (25, states[ItemState.SUCCESS])
        [listed] = await place.app.jobs.views([await place.app.jobs.get(job.id)])
        assert listed.progress == status.progress
        seen.add(finished)
        if status.ended:
            break
        await place.clock.sleep(20)
    assert len(seen) > 8 and max(seen) == 25 and status.percent == 100


@as_test(in_place)
async def test_a_live_job_counts_what_is_live_for_it(place: Place) -> None:
    # Given what earlier jobs have fetched
    await place.import_all()

    # When something new comes in
    added = place.strava.world.add(NewActivity())
    await place.streams.handle_event(place.event(added))
    await place.quiet()

    # Then the job counts it alone: read in full, and its streams
    [job, *_] = await place.app.jobs.list(sync=LIVE)
    progress = (await place.app.jobs.status(job.id)).progress
    assert (progress.done, progress.total) == (2, 2)
    assert progress.items is not None and progress.items["success"] == 2


@as_test(in_place, activities=450, shares=Shares(manual=1.0))
async def test_lists_are_read_page_by_page_and_nothing_is_missed(place: Place) -> None:
    # Given more than two pages, and three activities that began in the second of an edge
    edge = place.sports()[-200]
    for _ in range(3):
        start = datetime.fromisoformat(edge.start_date())
        place.strava.world.add(NewActivity(start=start, manual=True))

    # When only the list is read, while an activity is added
    job = (await place.streams.sync_now(user_id="ada")).job
    await place.clock.sleep(0.3)
    place.strava.world.add(NewActivity(manual=True))
    job = await place.until(job)

    # Then every one but that is known, and each was counted once
    known = sum((await place.states()).values())
    assert known >= 453
    counts = (await place.app.jobs.view(job)).counts
    assert counts.found == counts.imported == known


@as_test(in_place, activities=30)
async def test_the_next_sync_lists_only_what_is_new(place: Place) -> None:
    await place.import_all()
    listed = place.asked("/athlete/activities")

    # When an hour later there is one more
    await place.clock.sleep(3_600)
    added = place.strava.world.add(NewActivity())
    job = await place.until((await place.streams.sync_now(user_id="ada")).job)

    # Then it is found by one page and the look after it, and fetched at once
    assert place.asked("/athlete/activities") == listed + 2
    assert job.summary.records < 20
    assert await place.fetched(added) == place.channels(added)
    assert place.asked("/streams") == 31


@as_test(in_place, activities=30)
async def test_a_schedule_lists_everything_once_and_then_what_is_new(place: Place) -> None:
    async def scheduled() -> int:
        """Run as a schedule does: since the last success, and count the records."""
        job = await place.app.jobs.submit(
            LIVE, user_id="ada", connection_id=place.connection.id, mode="since"
        )
        return (await place.until(job.job)).summary.records

    # All of them: the last of a page begins the next one too.
    assert await scheduled() >= 30
    await place.clock.sleep(3_600)
    added = place.strava.world.add(NewActivity())
    assert await scheduled() < 20
    assert await place.fetched(added) == place.channels(added)


@pytest.mark.parametrize(
    ("mode", "known"), [({"mode": "limit", "limit": 7}, 7), ({"mode": "full"}, 30)]
)
@as_test(in_place, activities=30)
async def test_a_live_job_lists_as_much_as_it_is_told(
    place: Place, mode: dict[str, Any], known: int
) -> None:
    job = (
        await place.app.jobs.submit(LIVE, user_id="ada", connection_id=place.connection.id, **mode)
    ).job
    await place.until(job)

    assert sum((await place.states()).values()) == known


@as_test(in_place)
async def test_what_was_fetched_is_never_fetched_again(place: Place) -> None:
    await place.import_all()
    before = place.asked("/streams")

    await place.import_all()
    again = await place.until((await place.streams.backfill(user_id="ada")).job)

    assert again.state is JobState.SUCCESS
    assert place.asked("/streams") == before == 10


# ---- what goes wrong ---------------------------------------------------------------------------


@as_test(in_place)
async def test_a_429_defers_until_the_reset_and_burns_no_retry(place: Place) -> None:
    # Given a Strava that refuses the fourth request for streams
    job = (await place.streams.backfill(user_id="ada")).job
    while place.asked("/streams") < 3:
        await place.clock.sleep(1)
    place.strava.faults.next(FaultKind.RATE_LIMITED, path=ALL_STREAMS)

    # When the job sleeps
    job = await place.until(job, JobState.PENDING)
    assert job.reason is Reason.RATE_LIMITED

    # Then that one is deferred until the next quarter of an hour, and nothing is held
    [deferred] = await place.app.items.list(COLLECTION, states=[ItemState.DEFERRED], limit=10)
    assert deferred.deferred_until is not None and job.wake_at is not None
    quarter = deferred.deferred_until.timestamp() % 900
    assert 0 <= quarter < 10, deferred.deferred_until
    assert (deferred.retry_count, deferred.deferrals) == (0, 1)
    assert "429" in (deferred.error or "")
    assert (await place.states()).get("fetching") is None
    stats = await place.streams.stats()
    assert stats.limited_24h == 1
    asked = place.asked("/streams")
    await place.clock.sleep((job.wake_at - place.clock.now()).total_seconds() - 1)
    assert place.asked("/streams") == asked

    # And after it everything is fetched
    assert (await place.until(job)).state is JobState.SUCCESS
    assert await place.states() == {"success": 10}
    assert (await place.app.items.get(deferred.id)).retry_count == 0


@as_test(in_place)
async def test_malformed_streams_fail_three_times_and_then_wait_for_a_reset(place: Place) -> None:
    # Given one activity whose streams are nonsense
    poor = place.sports()[2]
    path = f"/api/v3/activities/{poor.id}/streams"
    place.strava.faults.next(FaultKind.MALFORMED, times=3, path=path)

    # When a backfill meets it
    job = await place.until((await place.streams.backfill(user_id="ada")).job)

    # Then it was tried three times, a minute and five minutes apart, and the job is done
    assert job.state is JobState.SUCCESS
    assert place.site.wire.count(path) == 3
    item = await place.item(poor)
    assert (item.state, item.retry_count, item.stuck) == (ItemState.FAILED, 3, True)
    assert "Malformed" in (item.error or "")
    stats = await place.streams.stats()
    assert (stats.stuck, stats.retries) == (1, {"3": 1})
    assert await place.states() == {"success": 9, "failed": 1}

    # And no backfill touches it again
    await place.until((await place.streams.backfill(user_id="ada")).job)
    assert place.site.wire.count(path) == 3

    # Until it is reset: then it is fetched without more ado
    reset = await place.streams.reset(place.id_of(poor))
    assert (reset.state, reset.retry_count, reset.error) == (ItemState.PENDING, 0, None)
    await place.quiet()
    assert await place.fetched(poor) == place.channels(poor)


@as_test(in_place)
async def test_an_outage_costs_nothing_but_time(place: Place) -> None:
    now = place.clock.now()
    outage = Fault(
        kind=FaultKind.OUTAGE, starts_at=now, ends_at=now + timedelta(minutes=4), path="/api/*"
    )
    place.strava.faults.add(outage)

    await place.import_all()
    await place.quiet()

    assert await place.states() == {"success": 10}


@as_test(in_place, activities=1)
async def test_without_an_id_nothing_is_asked_and_with_one_it_is_fetched(place: Place) -> None:
    # Given an activity whose id at Strava is not known
    [sport] = place.sports()
    await place.note(sport, external_id=None)
    await place.fetch_noted()
    assert (await place.item(sport)).state is ItemState.UNAVAILABLE
    assert place.asked("/streams") == 0
    with pytest.raises(IllegalTransition):
        await place.streams.reset(place.id_of(sport))

    # When it appears
    await place.streams.handle_event(place.event(sport))
    await place.quiet()

    # Then it is fetched
    assert await place.fetched(sport) == place.channels(sport)


# ---- whose it is -------------------------------------------------------------------------------


@as_test(in_place, activities=2)
async def test_an_activity_is_its_owners_and_nobody_elses(place: Place) -> None:
    await place.import_all()
    theirs = place.id_of(place.sports()[0])

    for ask in (place.streams.find, place.streams.streams):
        assert await ask(theirs, user_id="ada")
        with pytest.raises(NotFound):
            await ask(theirs, user_id="bob")
        with pytest.raises(NotFound):
            await ask(f"{theirs}-details")
    assert await place.streams.list(user_id="bob") == []
    with pytest.raises(NotFound):
        await place.streams.reset("nothing")
    with pytest.raises(NotConnected):
        await place.streams.sync_now(user_id="bob")
    with pytest.raises(NotFound):
        await place.streams.backfill(user_id="bob", connection_id=place.connection.id)


@as_test(in_place, activities=0)
async def test_two_users_of_one_account_each_have_their_own(place: Place) -> None:
    other = await place.site.connect(place.app, "bob")
    added = place.strava.world.add(NewActivity())

    assert (await place.streams.handle_event(place.event(added))).connections == 2
    await place.quiet()

    for user, connection in (("ada", place.connection), ("bob", other)):
        [mine] = await place.streams.list(user_id=user)
        assert mine.item.id == activity_id(connection.id, added.id)
        assert mine.item.state is ItemState.SUCCESS


# ---- asking twice ------------------------------------------------------------------------------


@as_test(in_place, works=False)
async def test_a_list_is_refused_while_only_an_event_is_seen_to(place: Place) -> None:
    await place.streams.handle_event(place.event(place.sports()[0]))

    with pytest.raises(ActiveJobExists):
        await place.streams.sync_now(user_id="ada")


@as_test(in_place, activities=1)
async def test_every_attempt_at_streams_is_logged_with_exactly_the_designed_fields(
    place: Place,
) -> None:
    # Given an activity whose streams cannot be read at first
    [sport] = place.sports()
    await place.note(sport, external_id=str(sport.id))
    place.strava.faults.next(FaultKind.MALFORMED, path=ALL_STREAMS)

    with told() as stream:
        await place.fetch_noted()

    first, second = lines(stream, "stream_fetch")
    ours = {"at", "event", "level", "module"}
    assert (
        {*first} - ours
        == {*second} - ours
        == {
            *("activity_id", "athlete_id", "status", "channels_fetched", "point_count"),
            *("error", "retry_count", "duration_ms", "rate_budget_remaining"),
        }
    )
    assert (first["activity_id"], first["athlete_id"]) == (
        place.id_of(sport),
        "ada",
    )
    assert (first["status"], first["retry_count"]) == ("failed", 1)
    assert (first["channels_fetched"], first["point_count"]) == ([], 0)
    assert first["error"].startswith("Malformed")
    assert (second["status"], second["error"]) == ("success", None)
    assert second["channels_fetched"] == sorted(place.channels(sport))
    stored = (await place.streams.streams(place.id_of(sport))).document
    assert stored is not None and second["point_count"] == stored.attributes.point_count > 0
    assert second["rate_budget_remaining"] > 0


@as_test(in_place)
async def test_the_numbers_tell_how_everything_stands(place: Place) -> None:
    await place.import_all()

    stats = await place.streams.stats(user_id="ada")

    assert stats.states[ItemState.SUCCESS] == 10
    assert set(stats.states) == set(ItemState)
    assert stats.athletes == {"ada": stats.states}
    assert (stats.stuck, stats.limited_24h, stats.retries) == (0, 0, {})
    used = {window.limit: window.used for window in stats.windows}
    assert used["read 15min"] == place.strava.meter.read().used["read_15min"]
    assert (await place.streams.stats()).athletes is None


# ---- set up by the environment -----------------------------------------------------------------

ENVIRONMENT = {"HEADGATE_STRAVA_CLIENT_ID": "4242", "HEADGATE_STRAVA_CLIENT_SECRET": "s3cret"}


@pytest.mark.parametrize("missing", sorted(ENVIRONMENT))
def test_what_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    for name, value in {**ENVIRONMENT, missing: " "}.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(InvalidInput, match=f"{missing}: is not set"):
        system.with_settings()


async def test_the_environment_says_who_we_are_at_strava(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HEADGATE_KEYS", key_entries("k1")[0])
    monkeypatch.setenv("HEADGATE_STRAVA_URL", "http://127.0.0.1:8001/")

    app = App(systems=[system])

    assert {sync.name for sync in app.registry} == {LIVE, STREAMS}
    source = app.registry.get(LIVE).source
    assert isinstance(source, ApiSource)
    assert source.api.base_url == "http://127.0.0.1:8001/api/v3"
    await app.close()
