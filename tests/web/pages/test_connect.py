"""Connecting an account by a link, out to the emulated Strava and back, in virtual time."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from headgate import ApiSource, App, JobState
from headgate.connectors import Response
from headgate.model import change
from headgate.model.job import Lane, Reason
from headgate.ports.transport import Request
from headgate.secrets.links import CONNECT_PATH, PROGRESS_PATH
from headgate.testing.asgi_transport import AsgiTransport
from tests.connecting import STRAVA, Activities, strava_auth
from tests.connecting import Site as Provider
from tests.web.pages.visits import HERE, Visitor, site_of
from tests.worlds import START, World, as_test, in_world

BACK = f"{HERE}/connected/strava"
COOKIE = "__Host-headgate"


class Here:
    """An application on the web, a Strava, and a user's browser between them."""

    def __init__(self, world: World, provider: Provider, app: App) -> None:
        self.world = world
        self.provider = provider
        self.app = app
        self.site = site_of(app)
        self.visitor = Visitor(self.site, world.clock)
        self.cookie = ""

    def link(self, **fields: Any) -> str:
        """The path of a link to connect by."""
        return self.site.links.connect_path(**{"source": "strava", "user_id": "ada", **fields})

    async def out(self, path: str) -> str:
        """Follow a link; where the provider's page is."""
        answer = await self.visitor.get(path)
        assert answer.status == 303, answer.text
        [cookie] = answer.headers.all("set-cookie")
        self.cookie = cookie.partition(";")[0]
        page = answer.headers.get("location") or ""
        assert page.startswith(f"{STRAVA}/oauth/authorize?")
        return page

    async def consent(self, page: str, **more: str) -> str:
        """Agree on the provider's page; where it sends the browser back to."""
        wire = AsgiTransport({STRAVA: self.provider.strava}, self.world.clock)
        url = f"{page}&{urlencode(more)}" if more else page
        answer = await wire.send(Request(method="GET", url=url))
        back = answer.headers.get("location") or ""
        assert back.startswith(f"{BACK}?")
        return back.removeprefix(HERE)

    async def back(self, path: str) -> Response:
        """Come back with the cookie."""
        return await self.visitor.get(path, cookie=self.cookie)

    async def connect(self, path: str, **more: str) -> Response:
        """Out and back."""
        return await self.back(await self.consent(await self.out(path), **more))


def connecting(
    folder: Path, test: Callable[[Here], Awaitable[None]], source: ApiSource | None = None
) -> None:
    """Run `test` in a world with a Strava."""

    async def main(world: World) -> None:
        provider = Provider(world)
        app = await provider.app(source=source or titled(redirect_uris=(BACK,)))
        await test(Here(world, provider, app))

    in_world(folder, main)


with_strava = as_test(connecting)


def titled(**auth: Any) -> ApiSource:
    return Activities(
        "strava", base_url=f"{STRAVA}/api/v3", auth=strava_auth(**auth), title="Strava"
    )


@with_strava
async def test_a_link_connects_an_account(here: Here) -> None:
    answer = await here.connect(here.link())
    assert answer.status == 200
    assert "Strava is connected" in answer.text
    assert "You can close this page." in answer.text
    [connection] = await here.app.connections.of_user("ada")
    assert connection.source == "strava"


@pytest.mark.security(19)
@with_strava
async def test_the_cookie_is_for_this_server_alone_and_gone_afterwards(here: Here) -> None:
    answer = await here.visitor.get(here.link())
    [cookie] = answer.headers.all("set-cookie")
    assert cookie.startswith(f"{COOKIE}=")
    told = {each.strip().lower() for each in cookie.split(";")[1:]}
    assert told == {"path=/", "secure", "httponly", "samesite=lax", "max-age=3600"}

    answer = await here.connect(here.link())
    [cookie] = answer.headers.all("set-cookie")
    assert cookie.startswith(f'{COOKIE}="";')
    assert "Max-Age=0" in cookie


@with_strava
async def test_the_job_that_waited_is_retried_and_shown(here: Here) -> None:
    # Given a job that failed because the user had to sign in again
    await here.connect(here.link())
    [connection] = await here.app.connections.of_user("ada")
    await here.app.jobs.submit("all", user_id="ada", connection_id=connection.id)
    lease = timedelta(minutes=5)
    claimed = await here.app._runtime.jobs.claim(Lane.HOT, worker="w", limit=1, lease=lease)
    [job] = claimed.jobs
    await here.app._runtime.jobs.settle(change.fail(job, reason=Reason.NEEDS_REAUTH, error="401"))

    # When they come back by the link on its page
    page = here.site.links.progress_path(job_id=job.id, user_id="ada", ttl=timedelta(days=1))
    shown = (await here.visitor.get(page)).text
    assert "Reconnect Strava" in shown
    assert "Retry now" not in shown
    again = shown.partition('href="/connect/')[2].partition('"')[0]
    answer = await here.connect(CONNECT_PATH + again)

    # Then the job goes on, and its page is open as long as it was before
    assert answer.status == 303
    path = answer.headers.get("location") or ""
    link = here.site.links.open_progress(path.removeprefix(PROGRESS_PATH))
    first = here.site.links.open_progress(page.removeprefix(PROGRESS_PATH))
    assert link == first
    assert (await here.app.jobs.get(job.id)).state is JobState.PENDING
    [same] = await here.app.connections.of_user("ada")
    assert same.id == connection.id


@with_strava
async def test_a_job_that_is_gone_or_ended_does_not_stand_in_the_way(here: Here) -> None:
    answer = await here.connect(here.link(retry_job="job_that_is_gone"))
    assert answer.status == 303
    assert (await here.visitor.get(answer.headers.get("location") or "")).status == 404
    assert len(await here.app.connections.of_user("ada")) == 1


@with_strava
async def test_who_says_no_is_told_so_and_may_try_again(here: Here) -> None:
    here.provider.strava.oauth.approves = False
    answer = await here.connect(here.link())
    assert answer.status == 400
    assert "Strava was not connected" in answer.text
    assert "access was not allowed" in answer.text
    here.provider.strava.oauth.approves = True
    again = answer.text.partition('href="/connect/')[2].partition('"')[0]
    assert (await here.connect(CONNECT_PATH + again)).status == 200


@with_strava
async def test_another_account_is_not_taken_for_the_one_before(here: Here) -> None:
    await here.connect(here.link())
    [connection] = await here.app.connections.of_user("ada")
    other = here.provider.strava.add_athlete()
    link = here.link(connection_id=connection.id)
    answer = await here.connect(link, sandbox_user=str(other.id))
    assert answer.status == 400
    assert "That is a different Strava account" in answer.text


@with_strava
async def test_an_answer_is_taken_once_in_time_and_from_the_same_browser(here: Here) -> None:
    # Twice
    path = await here.consent(await here.out(here.link()))
    assert (await here.back(path)).status == 200
    assert "Signing in was not finished" in (await here.back(path)).text
    # Too late
    path = await here.consent(await here.out(here.link()))
    await here.world.clock.sleep(11 * 60)
    late = await here.back(path)
    assert (late.status, "Try again" in late.text) == (400, True)
    await here.world.clock.sleep(3600)
    later = await here.back(path)
    assert (later.status, "Try again" in later.text) == (400, False)
    # By another browser: without the cookie, or with its own
    path = await here.consent(await here.out(here.link()))
    assert "Signing in was not finished" in (await here.visitor.get(path)).text
    await here.out(here.link(user_id="eve"))
    assert "Signing in was not finished" in (await here.back(path)).text
    assert await here.app.connections.of_user("eve") == []


@with_strava
async def test_a_cookie_that_was_made_up_is_none(here: Here) -> None:
    path = await here.consent(await here.out(here.link()))
    link = here.link().removeprefix(CONNECT_PATH)
    for made_up in ("", "nonsense", link, "\u00e9"):
        answer = await here.visitor.get(path, cookie=f"{COOKIE}={made_up}")
        assert (answer.status, "Signing in was not finished" in answer.text) == (400, True)


@pytest.mark.security(23)
@with_strava
async def test_the_answer_of_one_provider_is_not_taken_for_anothers(here: Here) -> None:
    path = await here.consent(await here.out(here.link()))
    answer = await here.back(path.replace("/connected/strava", "/connected/fitbit"))
    assert (answer.status, "Signing in was not finished" in answer.text) == (400, True)


@with_strava
async def test_a_provider_that_fails_loses_nothing(here: Here) -> None:
    path = await here.consent(await here.out(here.link()))
    answer = await here.back(path.replace("code=", "code=x"))
    assert answer.status == 400
    assert "Something went wrong on the way" in answer.text
    assert "Try again" in answer.text


@as_test(connecting, titled(redirect_uris=(f"{HERE}/elsewhere",)))
async def test_what_an_operator_forgot_is_said_to_them(here: Here) -> None:
    answer = await here.visitor.get(here.link())
    assert answer.status == 500
    assert "Strava cannot be connected here yet" in answer.text
    assert f"Add {BACK} to the redirect_uris of the source &#39;strava&#39;" in answer.text
    unknown = await here.visitor.get(here.link(source="nobody"))
    assert unknown.status == 500
    assert "declares no source" in unknown.text


@with_strava
async def test_a_connection_of_somebody_else_is_not_there(here: Here) -> None:
    await here.connect(here.link())
    [connection] = await here.app.connections.of_user("ada")
    answer = await here.visitor.get(here.link(user_id="eve", connection_id=connection.id))
    assert answer.status == 404


@with_strava
async def test_the_links_of_a_page_expire_with_it(here: Here) -> None:
    path = here.link(ttl=timedelta(hours=1))
    link = here.site.links.open_connect(path.removeprefix(CONNECT_PATH))
    assert link.expires_at == START + timedelta(hours=1)
    await here.world.clock.sleep(3600)
    assert (await here.visitor.get(path)).status == 410


@with_strava
async def test_where_users_are_sent_is_the_providers_page_and_no_other(here: Here) -> None:
    page = await here.out(here.link())
    asked = dict(parse_qsl(urlsplit(page).query))
    assert asked["redirect_uri"] == BACK
    assert asked["code_challenge_method"] == "S256"
