"""stravalib, a client that others wrote for the real Strava, used against the sandbox.

It keeps the sandbox honest: the bodies must pass its models, and the headers its limiter.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from io import BytesIO
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from requests.adapters import HTTPAdapter
from stravalib import Client, exc
from stravalib.protocol import RequestMethod
from stravalib.util.limiter import RateLimiter, RequestRate, get_rates_from_response_headers

from headgate.base.clock import ManualClock
from headgate.sandbox.kit.faults import Fault, FaultKind
from headgate.sandbox.kit.outbound import Reply
from headgate.sandbox.serving import serving
from headgate.sandbox.strava.activity import Shares
from headgate.sandbox.strava.limits import Limits
from headgate.sandbox.strava.sandbox import Strava
from headgate.sandbox.strava.world import NewActivity
from tests.unit.sandbox.strava.worlds import TCX

START = datetime(2026, 1, 5, 12, 1, tzinfo=UTC)
CLIENT_ID, CLIENT_SECRET = 4242, "sandbox-client-secret"


class ToSandbox(HTTPAdapter):
    """Sends what is meant for www.strava.com to the sandbox; each request takes a second."""

    def __init__(self, base_url: str, clock: ManualClock) -> None:
        super().__init__()
        self._base_url = base_url
        self._clock = clock

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> Any:
        assert request.url is not None
        request.url = request.url.replace("https://www.strava.com", self._base_url)
        response = super().send(request, *args, **options)
        self._clock.advance(1)
        return response


class NotingLimiter(RateLimiter):
    """Parses the headers as stravalib does, and never sleeps."""

    def __init__(self, rates: list[RequestRate | None]) -> None:
        super().__init__()
        self._rates = rates

    def __call__(self, args: dict[str, str], method: RequestMethod) -> None:
        self._rates.append(get_rates_from_response_headers(args, method))


class Site:
    """A sandbox that is being served, and a stravalib client of its first athlete."""

    def __init__(self, sandbox: Strava, base_url: str, clock: ManualClock) -> None:
        self.sandbox = sandbox
        self.clock = clock
        self.base_url = base_url
        self.rates: list[RequestRate | None] = []
        session = requests.Session()
        # Whatever proxies the environment names are not for loopback.
        session.trust_env = False
        session.mount("https://www.strava.com", ToSandbox(base_url, clock))
        self.session = session
        self.client = Client(
            access_token=sandbox.grant().access_token,
            requests_session=session,
            rate_limiter=NotingLimiter(self.rates),
        )


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("SILENCE_TOKEN_WARNINGS", "true")
    for name in ("STRAVA_CLIENT_ID", "STRAVA_CLIENT_SECRET"):
        monkeypatch.delenv(name, raising=False)
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


def test_the_athlete_is_understood(site: Site) -> None:
    athlete = site.client.get_athlete()

    assert athlete.id == site.sandbox.world.athlete_ids[0]
    assert athlete.firstname


def test_every_activity_is_listed_once_newest_first(site: Site) -> None:
    listed = list(site.client.get_activities())

    starts = [each.start_date for each in listed if each.start_date is not None]
    assert len({each.id for each in listed}) == 450
    assert starts == sorted(starts, reverse=True)
    assert site.sandbox.requests.count(path="/api/v3/athlete/activities") == 3


def test_a_span_of_time_is_listed(site: Site) -> None:
    listed = list(
        site.client.get_activities(
            after=datetime(2025, 12, 1, tzinfo=UTC), before=datetime(2025, 12, 11, tzinfo=UTC)
        )
    )

    assert 8 <= len(listed) <= 12
    assert all(each.start_date and each.start_date.month == 12 for each in listed)


def test_an_activity_is_understood_in_full(site: Site) -> None:
    made = site.sandbox.add_activity(NewActivity(name="Long one", distance_m=21_000))

    activity = site.client.get_activity(made.id, include_all_efforts=True)

    assert (activity.id, activity.name, activity.manual) == (made.id, "Long one", False)
    assert float(activity.distance or 0) == 21_000
    assert activity.segment_efforts is not None
    assert len(activity.segment_efforts) == 6
    assert activity.start_date is not None
    assert activity.start_date.timestamp() == made.start_s


def test_laps_are_understood(site: Site) -> None:
    made = site.sandbox.add_activity(NewActivity(distance_m=15_000))

    laps = list(site.client.get_activity_laps(made.id))

    assert [lap.lap_index for lap in laps] == [1, 2, 3]
    assert sum(lap.distance or 0 for lap in laps) == pytest.approx(15_000)


def test_streams_are_understood(site: Site) -> None:
    made = site.sandbox.add_activity()

    streams = site.client.get_activity_streams(made.id, types=["time", "latlng", "heartrate"])

    assert set(streams) == {"time", "latlng", "heartrate", "distance"}
    assert {stream.original_size for stream in streams.values()} == {300}
    assert all(len(stream.data or []) == 300 for stream in streams.values())


def test_streams_of_an_activity_entered_by_hand_are_not_found(site: Site) -> None:
    made = site.sandbox.add_activity(NewActivity(manual=True))

    with pytest.raises(exc.ObjectNotFound):
        site.client.get_activity_streams(made.id, types=["time"])


def test_an_upload_is_waited_for_and_a_second_one_is_a_duplicate(site: Site) -> None:
    uploader = site.client.upload_activity(
        BytesIO(TCX), data_type="tcx", name="Sunday", external_id="x"
    )
    activity = uploader.wait(poll_interval=0)

    again = site.client.upload_activity(BytesIO(TCX), data_type="tcx")
    with pytest.raises(exc.ActivityUploadFailed, match=f"duplicate of activity {activity.id}"):
        again.wait(poll_interval=0)

    assert activity.name == "Sunday"
    assert activity.id == uploader.activity_id
    # It was not ready at once: the processing takes two seconds of the sandbox's own time.
    assert site.sandbox.requests.count(path="/api/v3/uploads/{id}") >= 2


def test_an_activity_is_created_by_hand(site: Site) -> None:
    made = site.client.create_activity(
        "Treadmill", datetime(2026, 1, 5, 8, tzinfo=UTC), 1_200, sport_type="Run", distance=3_000
    )

    assert (made.name, made.manual) == ("Treadmill", True)
    # The spoilt header of this call is not in the way: stravalib reads the overall one.
    assert site.rates == [RequestRate(1, 1, 200, 2_000)]


def test_a_code_is_exchanged_and_the_token_refreshed(site: Site) -> None:
    url = site.client.authorization_url(CLIENT_ID, "http://localhost/back", state="s")
    page = site.session.get(url, allow_redirects=False, timeout=30)
    query = parse_qs(urlsplit(page.headers["location"]).query)

    tokens = site.client.exchange_code_for_token(CLIENT_ID, CLIENT_SECRET, query["code"][0])
    assert not isinstance(tokens, tuple)
    first = dict(tokens)
    early = dict(
        site.client.refresh_access_token(CLIENT_ID, CLIENT_SECRET, str(first["refresh_token"]))
    )
    site.clock.advance(21_600)
    late = dict(
        site.client.refresh_access_token(CLIENT_ID, CLIENT_SECRET, str(first["refresh_token"]))
    )

    assert early["access_token"] == first["access_token"]
    assert late["access_token"] != first["access_token"]
    assert late["refresh_token"] != first["refresh_token"]
    with pytest.raises(exc.Fault, match="RefreshToken"):
        site.client.refresh_access_token(CLIENT_ID, CLIENT_SECRET, str(first["refresh_token"]))
    site.client.access_token = str(late["access_token"])
    assert site.client.get_athlete().id == site.sandbox.world.athlete_ids[0]


def test_the_rate_headers_are_parsed(site: Site) -> None:
    site.client.get_athlete()
    site.client.get_athlete()
    site.client.upload_activity(BytesIO(TCX), data_type="tcx")

    reads = [RequestRate(used, used, 1_000, 1_000) for used in (1, 2)]
    assert site.rates == [*reads, RequestRate(3, 3, 200, 2_000)]


def test_missing_headers_are_taken_for_what_they_are(site: Site) -> None:
    site.sandbox.faults.next(FaultKind.NO_HEADERS)

    site.client.get_athlete()

    assert site.rates == [None]


def test_errors_are_recognised(site: Site) -> None:
    made = site.sandbox.add_activity()
    site.sandbox.faults.add(
        Fault(kind=FaultKind.FORBIDDEN, times=1),
        Fault(kind=FaultKind.RATE_LIMITED, times=2),
        Fault(kind=FaultKind.ERROR_IN_200, times=3),
    )

    with pytest.raises(exc.ApplicationInactive):
        site.client.get_activity(made.id)
    with pytest.raises(exc.Fault, match="429"):
        site.client.get_activity(made.id)
    with pytest.raises(exc.Fault, match="Internal Server Error"):
        site.client.get_activity(made.id)
    assert site.client.get_activity(made.id).id == made.id
    site.client.access_token = "unknown"
    with pytest.raises(exc.AccessUnauthorized):
        site.client.get_activity(made.id)


def test_a_subscription_is_made_listed_and_deleted(site: Site) -> None:
    made = site.client.create_subscription(
        CLIENT_ID, CLIENT_SECRET, "http://127.0.0.1/callback", "word"
    )
    listed = list(site.client.list_subscriptions(CLIENT_ID, CLIENT_SECRET))
    assert made.id is not None
    site.client.delete_subscription(made.id, CLIENT_ID, CLIENT_SECRET)

    assert [each.id for each in listed] == [made.id]
    assert list(site.client.list_subscriptions(CLIENT_ID, CLIENT_SECRET)) == []


def test_deauthorizing_ends_the_token(site: Site) -> None:
    site.client.deauthorize()

    with pytest.raises(exc.AccessUnauthorized):
        site.client.get_athlete()


def test_private_activities_are_left_out_for_a_token_that_may_not_see_them(site: Site) -> None:
    sandbox = Strava(site.clock, activities=60, shares=Shares(private=0.5))
    token = sandbox.grant(scopes=("read", "activity:read")).access_token
    with serving(sandbox) as base_url:
        other = Site(sandbox, base_url, site.clock)
        other.client.access_token = token
        listed = list(other.client.get_activities())
        other.session.close()

    assert 0 < len(listed) < 60
    assert not any(each.private for each in listed)
