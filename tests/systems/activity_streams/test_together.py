"""Three systems in one process: the two that ship, and one of somebody else's.

One application, one site and one worker serve them all, and what two of them ask of the same
provider is asked of its user once.
"""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from headgate import App, InvalidInput, JobState, System, SystemClock
from headgate.connectors.strava.api import SCOPES, UPLOAD_SCOPES
from headgate.ports.transport import Request
from headgate.systems.activity_streams import system as activity_streams
from headgate.systems.activity_streams.settings import ActivityStreamsSettings
from headgate.systems.health_history import system as health_history
from headgate.systems.health_history.settings import HealthHistorySettings
from headgate.testing.asgi_transport import AsgiTransport
from headgate_sandbox.google_health import access as google_access
from headgate_sandbox.google_health.sandbox import GoogleHealth
from headgate_sandbox.strava import access as strava_access
from headgate_sandbox.strava.activity import Shares
from headgate_sandbox.strava.sandbox import Strava
from tests.health import SPORTY
from tests.systems.rig import Place, reading_list, working
from tests.web.callers import ORIGIN, Client

STRAVA, GOOGLE = "http://strava.test", "http://google.test"
STRAVA_SETTINGS: dict[str, Any] = {
    "strava_url": STRAVA,
    "strava_client_id": strava_access.CLIENT_ID,
    "strava_client_secret": strava_access.CLIENT_SECRET,
}
FITBIT_SETTINGS: dict[str, Any] = {
    "fitbit_url": GOOGLE,
    "fitbit_client_id": google_access.CLIENT_ID,
    "fitbit_client_secret": google_access.CLIENT_SECRET,
}


def shipped() -> tuple[System, System]:
    """Activity streams and health history, for the sandboxes."""
    streams = ActivityStreamsSettings(**STRAVA_SETTINGS)
    health = HealthHistorySettings(**STRAVA_SETTINGS, **FITBIT_SETTINGS)
    return (
        activity_streams.with_settings(streams, public_url=ORIGIN),
        health_history.with_settings(health, public_url=ORIGIN),
    )


@pytest.fixture
def providers() -> dict[str, Any]:
    """Those of the two that ship, by their addresses."""
    clock = SystemClock()
    strava = Strava(clock, activities=2, stream_points=10, shares=Shares(manual=0.0))
    return {STRAVA: strava, GOOGLE: GoogleHealth(clock, shares=SPORTY)}


@pytest.fixture
async def place(sqlite_address: str, providers: dict[str, Any]) -> AsyncIterator[Place]:
    """All three on one database."""
    async with working(sqlite_address, *shipped(), reading_list(), providers=providers) as place:
        yield place


async def follow_link(place: Place, browser: Client, source: str) -> str:
    """Follow a link from the API to the provider's page; where that is."""
    async with await place.client() as ada:
        made = await ada.post("/v1/connections", json={"source": source})
    answer = await browser.get(urlsplit(made.json()["url"]).path)
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


async def sign_in(place: Place, source: str, provider: Any) -> str:
    """Agree on the provider's page, and come back; the connection's id."""
    async with place.browser() as browser:
        page = await follow_link(place, browser, source)
        parts = urlsplit(page)
        wire = AsgiTransport({f"{parts.scheme}://{parts.netloc}": provider}, place.app.clock)
        answer = await wire.send(Request(method="GET", url=page))
        back = urlsplit(answer.headers.get("location") or "")
        ended = await browser.get(f"{back.path}?{back.query}")
        assert ended.status_code == 200, ended.text
    return (await place.app.connections.resolve(source, user_id="ada")).id


def scopes_in(url: str) -> list[str]:
    """What the provider's page asks the user to agree to."""
    return parse_qs(urlsplit(url).query)["scope"][0].split(",")


async def test_the_example_works_beside_the_others(place: Place) -> None:
    await place.read_shelf("ada")

    async with await place.client() as ada, place.browser() as browser:
        await ada.put("/v1/reading-list/shelf-ada-1/read")
        url = (await ada.post("/v1/reading-list/shelf-ada-1/link")).json()["url"]
        page = await browser.get(urlsplit(url).path)
        # An item of one system is nothing to another.
        strange = await ada.get("/v1/activities/shelf-ada-1")

    assert "This is the text of article 1." in page.text
    assert strange.status_code == 404


async def test_what_both_ask_of_strava_is_asked_of_its_user_at_once(place: Place) -> None:
    async with place.browser() as browser:
        url = await follow_link(place, browser, "strava")

    assert sorted(scopes_in(url)) == sorted({*SCOPES, *UPLOAD_SCOPES})


async def test_alone_a_system_asks_for_no_more_than_it_needs(sqlite_address: str) -> None:
    _, health = shipped()
    async with working(sqlite_address, health) as place:
        url = await place.app.connections.start(
            "strava", user_id="ada", session="a browser", redirect_uri=f"{ORIGIN}/connected/strava"
        )

    assert scopes_in(url) == list(UPLOAD_SCOPES)
    assert set(UPLOAD_SCOPES) < set(SCOPES)


async def test_one_sign_in_and_one_budget_serve_the_syncs_of_both_systems(
    place: Place, providers: dict[str, Any]
) -> None:
    # Given one account at each provider
    strava = await sign_in(place, "strava", providers[STRAVA])
    fitbit = await sign_in(place, "fitbit", providers[GOOGLE])

    # When both systems work with it
    day = (place.app.clock.now() - timedelta(days=3)).date().isoformat()
    days = {"source": "fitbit", "destination": "strava", "startDate": day, "endDate": day}
    async with await place.client() as ada:
        live = (await ada.post("/v1/activities/sync", json={})).json()["id"]
        history = (await ada.post("/jobs", json=days)).json()["jobId"]
    assert [await place.ended(each) for each in (live, history)] == [JobState.SUCCESS] * 2

    # Then both have used the one connection, by one token
    jobs = place.app.jobs
    assert (await jobs.get(live)).connection_id == strava
    assert (await jobs.get(history)).connection_id == fitbit
    assert (await jobs.get(history)).destination_connection_id == strava
    sent = [each for each in place.wire.sent if each.url.startswith(f"{STRAVA}/api/")]
    assert len({each.headers.get("authorization") for each in sent}) == 1
    paths = {urlsplit(each.url).path for each in sent}
    assert {"/api/v3/athlete/activities", "/api/v3/uploads"} <= paths

    # And every request of both was counted, by us as by Strava
    use = await place.app.budgets.find("strava")
    assert use is not None
    [counted] = [each for each in use.windows if each.limit == "day"]
    assert counted.used == counted.theirs == len(sent)


def test_two_systems_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidInput, match="two systems are called 'reading-list'"):
        App("sqlite:///never.db", systems=[reading_list(), reading_list()])
