"""stravalib, a client that others wrote for the real Strava, used against the sandbox.

It keeps the sandbox honest: the bodies must pass its models, and the headers its limiter.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from headgate.base.clock import ManualClock
from headgate_sandbox.kit.faults import Fault, FaultKind
from headgate_sandbox.kit.outbound import Reply
from headgate_sandbox.serving import serving
from headgate_sandbox.strava.activity import Shares
from headgate_sandbox.strava.limits import Limits
from headgate_sandbox.strava.sandbox import Strava
from headgate_sandbox.strava.world import NewActivity
from tests.sandbox.strava.worlds import START, TCX

if TYPE_CHECKING:
    from tests.sandbox.strava_client import Site

CLIENT = (4242, "sandbox-client-secret")


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator["Site"]:
    monkeypatch.setenv("SILENCE_TOKEN_WARNINGS", "true")
    for name in ("STRAVA_CLIENT_ID", "STRAVA_CLIENT_SECRET"):
        monkeypatch.delenv(name, raising=False)
    from tests.sandbox.strava_client import Site

    clock = ManualClock(START)
    sandbox = Strava(
        clock, activities=450, stream_points=300, limits=Limits(read_15min=1_000), outbound=echo
    )
    with serving(sandbox) as base_url:
        site = Site(sandbox, base_url, clock)
        try:
            yield site
        finally:
            site.session.close()


async def echo(method: str, url: str, body: bytes | None) -> Reply:
    """A callback that passes the handshake."""
    challenge = parse_qs(urlsplit(url).query)["hub.challenge"][0]
    return Reply(200, f'{{"hub.challenge": "{challenge}"}}'.encode())


def test_the_athlete_is_understood_and_the_rate_headers_too_if_there_are_any(site: "Site") -> None:
    athlete = site.client.get_athlete()
    site.client.get_athlete()
    site.client.upload_activity(BytesIO(TCX), data_type="tcx")
    site.sandbox.faults.next(FaultKind.NO_HEADERS)
    site.client.get_athlete()

    assert athlete.id == site.sandbox.world.athlete_ids[0]
    assert athlete.firstname
    reads = [site.rate(used, used, 1_000, 1_000) for used in (1, 2)]
    assert site.rates == [*reads, site.rate(3, 3, 200, 2_000), None]


def test_every_activity_is_listed_once_newest_first_and_a_span_of_time(site: "Site") -> None:
    listed = list(site.client.get_activities())
    requests = site.sandbox.requests.count(path="/api/v3/athlete/activities")
    after, before = (datetime(2025, 12, day, tzinfo=UTC) for day in (1, 11))
    part = list(site.client.get_activities(after=after, before=before))

    starts = [each.start_date for each in listed if each.start_date is not None]
    assert len({each.id for each in listed}) == 450
    assert starts == sorted(starts, reverse=True)
    assert requests == 3
    assert 8 <= len(part) <= 12
    assert all(each.start_date and each.start_date.month == 12 for each in part)


def test_an_activity_is_understood_in_full_with_its_laps(site: "Site") -> None:
    made = site.sandbox.add_activity(NewActivity(name="Long one", distance_m=21_000))

    activity = site.client.get_activity(made.id, include_all_efforts=True)
    laps = list(site.client.get_activity_laps(made.id))

    assert (activity.id, activity.name, activity.manual) == (made.id, "Long one", False)
    assert float(activity.distance or 0) == 21_000
    assert activity.segment_efforts is not None
    assert len(activity.segment_efforts) == 6
    assert activity.start_date is not None
    assert activity.start_date.timestamp() == made.start_s
    assert [lap.lap_index for lap in laps] == [1, 2, 3, 4]
    assert sum(lap.distance or 0 for lap in laps) == pytest.approx(21_000)


def test_streams_are_understood_and_those_of_an_activity_by_hand_not_found(site: "Site") -> None:
    made = site.sandbox.add_activity()
    by_hand = site.sandbox.add_activity(NewActivity(manual=True))

    streams = site.client.get_activity_streams(made.id, types=["time", "latlng", "heartrate"])

    assert set(streams) == {"time", "latlng", "heartrate", "distance"}
    assert {stream.original_size for stream in streams.values()} == {300}
    assert all(len(stream.data or []) == 300 for stream in streams.values())
    with pytest.raises(site.errors.ObjectNotFound):
        site.client.get_activity_streams(by_hand.id, types=["time"])


def test_an_upload_is_waited_for_and_a_second_one_is_a_duplicate(site: "Site") -> None:
    uploader = site.client.upload_activity(
        BytesIO(TCX), data_type="tcx", name="Sunday", external_id="x"
    )
    activity = uploader.wait(poll_interval=0)

    again = site.client.upload_activity(BytesIO(TCX), data_type="tcx")
    duplicate = f"duplicate of activity {activity.id}"
    with pytest.raises(site.errors.ActivityUploadFailed, match=duplicate):
        again.wait(poll_interval=0)

    assert (activity.name, activity.id) == ("Sunday", uploader.activity_id)
    # It was not ready at once: the processing takes two seconds of the sandbox's own time.
    assert site.sandbox.requests.count(path="/api/v3/uploads/{id}") >= 2


def test_an_activity_is_created_by_hand(site: "Site") -> None:
    made = site.client.create_activity(
        "Treadmill", datetime(2026, 1, 5, 8, tzinfo=UTC), 1_200, sport_type="Run", distance=3_000
    )

    assert (made.name, made.manual) == ("Treadmill", True)
    # The spoilt header of this call is not in the way: stravalib reads the overall one.
    assert site.rates == [site.rate(1, 1, 200, 2_000)]


def test_a_code_is_exchanged_and_the_token_refreshed(site: "Site") -> None:
    url = site.client.authorization_url(CLIENT[0], "http://localhost/back", state="s")
    page = site.session.get(url, allow_redirects=False, timeout=30)
    query = parse_qs(urlsplit(page.headers["location"]).query)

    tokens = site.client.exchange_code_for_token(*CLIENT, query["code"][0])
    assert not isinstance(tokens, tuple)
    first = dict(tokens)
    old = str(first["refresh_token"])
    early = dict(site.client.refresh_access_token(*CLIENT, old))
    site.clock.advance(21_600)
    late = dict(site.client.refresh_access_token(*CLIENT, old))

    assert early["access_token"] == first["access_token"]
    assert late["access_token"] != first["access_token"]
    assert late["refresh_token"] != old
    with pytest.raises(site.errors.Fault, match="RefreshToken"):
        site.client.refresh_access_token(*CLIENT, old)
    site.client.access_token = str(late["access_token"])
    assert site.client.get_athlete().id == site.sandbox.world.athlete_ids[0]


def test_errors_are_recognised(site: "Site") -> None:
    made = site.sandbox.add_activity()
    site.sandbox.faults.add(
        Fault(kind=FaultKind.FORBIDDEN, times=1),
        Fault(kind=FaultKind.RATE_LIMITED, times=2),
        Fault(kind=FaultKind.ERROR_IN_200, times=3),
    )

    with pytest.raises(site.errors.ApplicationInactive):
        site.client.get_activity(made.id)
    with pytest.raises(site.errors.Fault, match="429"):
        site.client.get_activity(made.id)
    with pytest.raises(site.errors.Fault, match="Internal Server Error"):
        site.client.get_activity(made.id)
    assert site.client.get_activity(made.id).id == made.id
    site.client.deauthorize()
    for token in (site.client.access_token, "unknown"):
        site.client.access_token = token
        with pytest.raises(site.errors.AccessUnauthorized):
            site.client.get_athlete()


def test_a_subscription_is_made_listed_and_deleted(site: "Site") -> None:
    made = site.client.create_subscription(*CLIENT, "http://127.0.0.1/callback", "word")
    listed = list(site.client.list_subscriptions(*CLIENT))
    assert made.id is not None
    site.client.delete_subscription(made.id, *CLIENT)

    assert [each.id for each in listed] == [made.id]
    assert list(site.client.list_subscriptions(*CLIENT)) == []


def test_private_activities_are_left_out_for_a_token_that_may_not_see_them(site: "Site") -> None:
    sandbox = Strava(site.clock, activities=60, shares=Shares(private=0.5))
    token = sandbox.grant(scopes=("read", "activity:read")).access_token
    with serving(sandbox) as base_url:
        other = type(site)(sandbox, base_url, site.clock)
        other.client.access_token = token
        listed = list(other.client.get_activities())
        other.session.close()

    assert 0 < len(listed) < 60
    assert not any(each.private for each in listed)
